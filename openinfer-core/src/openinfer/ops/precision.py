"""How far the results of operators may be off, in units in the last place, as their definitions say."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.compute.builder import ComputationError
from openinfer.compute.stage import Order, expressions_of
from openinfer.expr.linear import linearise
from openinfer.ops.any_sizes import ways_at_any_sizes
from openinfer.ops.applying import scalar_expression
from openinfer.ops.computations import computation_of
from openinfer.ops.schema import Compute, Elementwise, OpTypeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.compute import Computation
    from openinfer.compute.stage import Stage
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import UnresolvedSetting
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


def ulps_of(schema: OpSchema, call: OpCall, late: Mapping[str, UnresolvedSetting] = MappingProxyType({})) -> float:
    """Return the units in the last place, of the type that is computed in, that results may be off; 0: none.

    Args:
        late: settings that are known at run time only, which the call leaves out.
    """
    if schema.tolerance is not None:
        return schema.tolerance
    if isinstance(schema.definition, Elementwise):
        return 0.0 if not late and _is_exact_of_elements(schema, call) else ELEMENTWISE_ULPS
    is_exact = schema.category in EXACT and isinstance(schema.definition, Compute) and _is_defined(schema, call, late)
    return 0.0 if is_exact else OTHER_ULPS


def _is_exact_of_elements(schema: OpSchema, call: OpCall) -> bool:
    functions = float_functions(schema, call)
    if _calls_library(functions):
        return False
    return schema.category in EXACT or (bool(functions) and sum(name in _ROUNDED for name in functions) < 2)


def _is_defined(schema: OpSchema, call: OpCall, late: Mapping[str, UnresolvedSetting]) -> bool:
    """Whether the stages of a call are seen and define every bit; what kernels do is not seen."""
    computations = _computations(schema, call, late)
    return computations is not None and all(map(_is_defined_stage, (s for c in computations for s in c.stages)))


def _computations(
    schema: OpSchema, call: OpCall, late: Mapping[str, UnresolvedSetting]
) -> tuple[Computation, ...] | None:
    if not late and not call.has_sizes:
        try:
            return (computation_of(schema, call),)
        except (OpTypeError, ComputationError):
            # Types of tensors whose extents a step decides are declared at their largest, which need not fit together.
            pass
    return ways_at_any_sizes(schema, call, late)


def _is_defined_stage(stage: Stage) -> bool:
    """Whether no function of a library is called, and no total of rounded terms is free to take any order."""
    fold = stage.fold
    if fold is not None and fold.order is Order.ANY:
        combined = (name for total in fold.totals for name in _functions(total.combine))
        if not _ROUNDED.isdisjoint(combined):
            return False
    return not any(_calls_library(_functions(expr)) for expr in expressions_of(stage))


def _calls_library(functions: Iterable[str]) -> bool:
    return not set(functions) <= _ROUNDED | _CHOOSING


def float_functions(schema: OpSchema, call: OpCall) -> list[str]:
    """Return the functions of floats in the expression of an operator on elements; none for others."""
    if not isinstance(schema.definition, Elementwise):
        return []
    return _functions(scalar_expression(schema, call))


def _functions(expr: Expr) -> list[str]:
    return [step.function for step in linearise(expr).instructions if step.dtype.is_float]
