"""How far the results of operators may be off, in units in the last place, as their definitions say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr.linear import linearise
from openinfer.ops.applying import scalar_expression
from openinfer.ops.schema import Elementwise

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

EXACT = frozenset({"arithmetic", "bitwise", "comparison", "mutation", "movement", "indexing", "sequences"})
"""Categories of operators that leave no choice: every bit of the result is defined."""

ELEMENTWISE_ULPS, OTHER_ULPS = 4.0, 64.0
"""Units in the last place that other floats may be off: of functions of single elements, and of what sums."""

_ROUNDED = frozenset({"add", "sub", "mul", "div"})
_LIBRARY = frozenset({"exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "tanh", "erf", "power"})


def ulps_of(schema: OpSchema, call: OpCall) -> float:
    """Return the units in the last place, of the type that is computed in, that results may be off; 0: none."""
    if schema.tolerance is not None:
        return schema.tolerance
    if schema.category in EXACT or rounds_once(schema, call):
        return 0.0
    return ELEMENTWISE_ULPS if isinstance(schema.definition, Elementwise) else OTHER_ULPS


def rounds_once(schema: OpSchema, call: OpCall) -> bool:
    """Whether an operator on elements calls no function of a library and rounds at most once."""
    functions = float_functions(schema, call)
    return bool(functions) and not _LIBRARY & set(functions) and sum(name in _ROUNDED for name in functions) < 2


def float_functions(schema: OpSchema, call: OpCall) -> list[str]:
    """Return the functions of floats in the expression of an operator on elements; none for others."""
    if not isinstance(schema.definition, Elementwise):
        return []
    steps = linearise(scalar_expression(schema, call)).instructions
    return [step.function for step in steps if step.dtype.is_float]
