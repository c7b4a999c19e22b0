"""Integer expressions of a plan: names bound to what they mean, and the values that they can take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.plan.steps import IndexExpr, LoopIndex
from openinfer.symbolic import DIVISIONS, BinOp, Const, Name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.symbolic import IntExpr

Interval: TypeAlias = "tuple[int, int]"
"""Smallest and largest value, both included."""


@dataclass(frozen=True, slots=True)
class LoopScope:
    """A loop around a statement: its number, and the values of its index if the bounds are constants."""

    index: str
    loop: int
    values: Interval | None


def constant(index: IndexExpr) -> int | None:
    """Return the value of an expression of numbers only, else None."""
    known = {name: bound for name, bound in index.names if isinstance(bound, int)}
    if len(known) != len(index.names):
        return None
    return symbolic.evaluate(index.expr, known.__getitem__)


def interval(index: IndexExpr, loops: Mapping[int, Interval | None]) -> Interval | None:
    """Return the smallest and largest value that an expression can take, or None when a name may be anything."""
    bounds: dict[str, Interval] = {}
    for name, bound in index.names:
        if isinstance(bound, int):
            bounds[name] = (bound, bound)
        elif isinstance(bound, LoopIndex):
            values = loops[bound.loop]
            if values is None:
                return None
            bounds[name] = values
        else:
            return None
    return _interval(index.expr, bounds)


def expression_interval(expr: IntExpr, names: Mapping[str, Interval | None]) -> Interval | None:
    """Return the smallest and largest value of an expression; None where a name in it may be anything."""
    bounds: dict[str, Interval] = {}
    for name in symbolic.names(expr):
        known = names.get(name)
        if known is None:
            return None
        bounds[name] = known
    return _interval(expr, bounds)


def _interval(expr: IntExpr, bounds: Mapping[str, Interval]) -> Interval:
    done: list[Interval] = []
    stack: list[IntExpr | str] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Const):
            done.append((item.value, item.value))
        elif isinstance(item, Name):
            done.append(bounds[item.name])
        elif isinstance(item, BinOp):
            stack += [item.op, item.right, item.left]
        else:
            right, left = done.pop(), done.pop()
            done.append(_divided(item, left, right) if item in DIVISIONS else _combined(item, left, right))
    return done[0]


def _combined(op: str, left: Interval, right: Interval) -> Interval:
    if op == "+":
        return left[0] + right[0], left[1] + right[1]
    if op == "-":
        return left[0] - right[1], left[1] - right[0]
    corners = [a * b for a in left for b in right]
    return min(corners), max(corners)


def _divided(op: str, left: Interval, right: Interval) -> Interval:
    """Return the interval of a division, whose operands are never negative where it has a value."""
    low, high = max(left[0], 0), max(left[1], 0)
    least, most = max(right[0], 1), max(right[1], 1)
    if op == "%":
        return 0, min(high, most - 1)
    up = 1 if op == "ceil" else 0
    return low // most, (high + up * (least - 1)) // least


def is_exact(indices: tuple[IndexExpr, ...]) -> bool:
    """Whether the indices take every combination of the values in their intervals: numbers and different loops."""
    loops: list[int] = []
    for index in indices:
        if constant(index) is not None:
            continue
        bound = index.names[0][1]
        if not isinstance(index.expr, Name) or not isinstance(bound, LoopIndex):
            return False
        loops.append(bound.loop)
    return len(loops) == len(set(loops))
