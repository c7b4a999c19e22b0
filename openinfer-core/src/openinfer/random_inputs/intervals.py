"""Which numbers a scalar expression can yield for inputs from given intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import BOOL
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.expr.tree import Expr

Rule: TypeAlias = "Callable[[Sequence[Interval]], Interval]"


@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from ``low`` to ``high``, inclusive; False and True are 0 and 1."""

    low: float
    high: float

    def joined(self, other: Interval) -> Interval:
        """Return the smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def holds(self, other: Interval) -> bool:
        """Whether every number of another interval lies in this one."""
        return self.low <= other.low and other.high <= self.high


def interval_of(expr: Expr, inputs: Sequence[Interval | None]) -> Interval | None:
    """Return the numbers that an expression can yield; None where an input it needs, or a function, has no bounds."""
    results: list[Interval | None] = []
    for instruction in linearise(expr).instructions:
        operands = [results[number] for number in instruction.operands]
        results.append(_result(instruction, operands, inputs))
    return results[-1]


def _result(
    instruction: Instruction, operands: Sequence[Interval | None], inputs: Sequence[Interval | None]
) -> Interval | None:
    if instruction.function == "input":
        return inputs[instruction.index]
    if instruction.function == "literal":
        return _point(instruction.value)
    if instruction.function == "select":
        return _selected(operands)
    rule, bounds = _RULES.get(instruction.function), [operand for operand in operands if operand is not None]
    if rule is None or len(bounds) < len(operands):
        return None
    return _within_type(rule(bounds), instruction.dtype)


def _point(value: object) -> Interval | None:
    number = value if isinstance(value, bool | int | float) else math.nan
    return Interval(number, number) if math.isfinite(number) else None


def _selected(operands: Sequence[Interval | None]) -> Interval | None:
    condition, first, second = operands
    if condition is not None and condition.low == condition.high:
        return first if condition.low else second
    return None if first is None or second is None else first.joined(second)


def _within_type(interval: Interval, dtype: DType) -> Interval | None:
    """Return an interval of floats rounded towards zero for integers; None where an integer could wrap around."""
    if dtype.is_float:
        return interval if math.isfinite(interval.low) and math.isfinite(interval.high) else None
    if dtype is BOOL:
        return interval
    low, high = math.trunc(interval.low), math.trunc(interval.high)
    if dtype.minimum is None or dtype.maximum is None or low < dtype.minimum or high > dtype.maximum:
        return None
    return Interval(low, high)


def _product(operands: Sequence[Interval]) -> Interval:
    a, b = operands
    ends = (a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)
    return Interval(min(ends), max(ends))


def _magnitude(operands: Sequence[Interval]) -> Interval:
    (x,) = operands
    most = max(abs(x.low), abs(x.high))
    return Interval(0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), most)


def _compared(always: Callable[[Interval, Interval], bool], never: Callable[[Interval, Interval], bool]) -> Rule:
    def rule(operands: Sequence[Interval]) -> Interval:
        a, b = operands
        return Interval(int(always(a, b)), int(not never(a, b)))

    return rule


def _apart(a: Interval, b: Interval) -> bool:
    return a.high < b.low or b.high < a.low


def _same(a: Interval, b: Interval) -> bool:
    return a.low == a.high == b.low == b.high


_RULES: dict[str, Rule] = {
    "add": lambda of: Interval(of[0].low + of[1].low, of[0].high + of[1].high),
    "sub": lambda of: Interval(of[0].low - of[1].high, of[0].high - of[1].low),
    "mul": _product,
    "neg": lambda of: Interval(-of[0].high, -of[0].low),
    "absolute": _magnitude,
    "minimum": lambda of: Interval(min(of[0].low, of[1].low), min(of[0].high, of[1].high)),
    "maximum": lambda of: Interval(max(of[0].low, of[1].low), max(of[0].high, of[1].high)),
    "cast": lambda of: of[0],
    "floor": lambda of: Interval(math.floor(of[0].low), math.floor(of[0].high)),
    "ceil": lambda of: Interval(math.ceil(of[0].low), math.ceil(of[0].high)),
    "trunc": lambda of: Interval(math.trunc(of[0].low), math.trunc(of[0].high)),
    "eq": _compared(_same, _apart),
    "ne": _compared(_apart, _same),
    "lt": _compared(lambda a, b: a.high < b.low, lambda a, b: a.low >= b.high),
    "le": _compared(lambda a, b: a.high <= b.low, lambda a, b: a.low > b.high),
    "gt": _compared(lambda a, b: a.low > b.high, lambda a, b: a.high <= b.low),
    "ge": _compared(lambda a, b: a.low >= b.high, lambda a, b: a.high < b.low),
    "logical_and": lambda of: Interval(min(of[0].low, of[1].low), min(of[0].high, of[1].high)),
    "logical_or": lambda of: Interval(max(of[0].low, of[1].low), max(of[0].high, of[1].high)),
    "logical_not": lambda of: Interval(1 - of[0].high, 1 - of[0].low),
}
"""By function of `openinfer.expr.tree`; those without a rule have results of any size."""
