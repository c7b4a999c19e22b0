"""How far the results of operators may be off, in units in the last place, as their definitions say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute.builder import ComputationError
from openinfer.compute.stage import expressions_of
from openinfer.expr.linear import linearise
from openinfer.ops.applying import scalar_expression
from openinfer.ops.computations import computation_of
from openinfer.ops.schema import Compute, Elementwise, OpTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.expr.tree import Expr
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

EXACT = frozenset({"arithmetic", "bitwise", "comparison", "mutation", "movement", "indexing", "sequences"})
"""Categories of operators that leave no choice where they call no function of a library: every bit is defined."""

ELEMENTWISE_ULPS, OTHER_ULPS = 4.0, 64.0
"""Units in the last place that other floats may be off: of functions of single elements, and of what sums."""

_ROUNDED = frozenset({"add", "sub", "mul", "div", "fma"})
_CHOOSING = frozenset(
    {
        *("input", "literal", "cast", "from_bits", "neg", "absolute", "minimum", "maximum", "select", "rem"),
        *("floor", "ceil", "trunc", "round_even"),
    }
)
"""Functions of floats that round nothing, but for the type. One that is neither here nor above counts as a library's,
so that none is taken for exact unawares."""


def ulps_of(schema: OpSchema, call: OpCall) -> float:
    """Return the units in the last place, of the type that is computed in, that results may be off; 0: none."""
    if schema.tolerance is not None:
        return schema.tolerance
    if (schema.category in EXACT and _is_defined(schema, call)) or rounds_once(schema, call):
        return 0.0
    return ELEMENTWISE_ULPS if isinstance(schema.definition, Elementwise) else OTHER_ULPS


def _is_defined(schema: OpSchema, call: OpCall) -> bool:
    """Whether the expressions of a call are seen and call no function of a library; what kernels do is not seen."""
    if isinstance(schema.definition, Elementwise):
        return not _calls_library(float_functions(schema, call))
    if not isinstance(schema.definition, Compute):
        return False
    try:
        stages = computation_of(schema, call).stages
    except (OpTypeError, ComputationError):
        # Settings and extents that are known at run time only are places and sizes of what is moved.
        return True
    return not any(_calls_library(_functions(expr)) for stage in stages for expr in expressions_of(stage))


def rounds_once(schema: OpSchema, call: OpCall) -> bool:
    """Whether an operator on elements calls no function of a library and rounds at most once."""
    functions = float_functions(schema, call)
    return bool(functions) and not _calls_library(functions) and sum(name in _ROUNDED for name in functions) < 2


def _calls_library(functions: Iterable[str]) -> bool:
    return not set(functions) <= _ROUNDED | _CHOOSING


def float_functions(schema: OpSchema, call: OpCall) -> list[str]:
    """Return the functions of floats in the expression of an operator on elements; none for others."""
    if not isinstance(schema.definition, Elementwise):
        return []
    return _functions(scalar_expression(schema, call))


def _functions(expr: Expr) -> list[str]:
    return [step.function for step in linearise(expr).instructions if step.dtype.is_float]
