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
    """Return the smallest and largest value that an expression can take, or None when it may be anything."""
    bounds: dict[str, Interval | None] = {}
    for name, bound in index.names:
        if isinstance(bound, int):
            bounds[name] = (bound, bound)
        else:
            bounds[name] = loops[bound.loop] if isinstance(bound, LoopIndex) else None
    return expression_interval(index.expr, bounds)


def expression_interval(expr: IntExpr, names: Mapping[str, Interval | None]) -> Interval | None:
    """Return the smallest and largest value of an expression; None where it may be anything, as a name in it may.

    The rest of a division by a number is below that number, whatever is divided.
    """
    done: list[Interval | None] = []
    stack: list[IntExpr | str] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, Const):
            done.append((item.value, item.value))
        elif isinstance(item, Name):
            done.append(names.get(item.name))
        elif isinstance(item, BinOp):
            stack += [item.op, item.right, item.left]
        else:
            right, left = done.pop(), done.pop()
            done.append(_applied(item, left, right))
    return done[0]


def _applied(op: str, left: Interval | None, right: Interval | None) -> Interval | None:
    if right is None:
        return None
    if left is None:
        return (0, max(right[1], 1) - 1) if op == "%" else None
    return _divided(op, left, right) if op in DIVISIONS else _combined(op, left, right)


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
