"""Folds whose terms may be combined in any order: what partial totals begin with, and how they are joined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Order
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.compute import Fold, Total
    from openinfer.expr.tree import Expr
    from openinfer.schedule.loops import Schedule

_IDEMPOTENT = frozenset(("minimum", "maximum"))


def joining(total: Total) -> str | None:
    """Return the function of two operands that combines a total with a term, where it also joins two totals.

    None: the combination has another form.
    """
    match total.combine:
        case tree.Apply(function, (tree.Input(first), tree.Input(second))) if {first, second} == {~0, ~1}:
            return function if function in ("add", "mul", *_IDEMPOTENT) else None
        case _:
            return None


def is_idempotent(total: Total) -> bool:
    """Return whether a term may be combined twice, so that totals can begin with the first term.

    So it is where the combination chooses one of both: two equal ones are what is chosen.
    """
    match total.combine:
        case tree.Apply("select", (tree.Apply(), tree.Input(first), tree.Input(second))) if {first, second} == {~0, ~1}:
            return True
        case _:
            return joining(total) in _IDEMPOTENT


def has_parts(fold: Fold) -> bool:
    """Return whether a fold may be carried out by partial totals."""
    if fold.order is not Order.ANY or fold.running or len(fold.totals) != 1:
        return False
    (total,) = fold.totals
    function = joining(total)
    return function is not None and (total.start is not None or function in _IDEMPOTENT)


def may_join_lanes(schedule: Schedule, fold: Fold) -> bool:
    """Return whether the lanes of a schedule may be added to one total in each iteration: integers, in any order."""
    lanes = schedule.lanes
    if lanes is None or not lanes.joined or lanes.axis not in fold.axes or len(fold.totals) != 1:
        return False
    (total,) = fold.totals
    return total.dtype.is_integer and joining(total) == "add"


def is_tileable(fold: Fold) -> bool:
    """Return whether totals of several places can be kept side by side, each begun before its first term."""
    is_alone = len(fold.totals) == 1
    return not fold.running and all(t.start is not None or (is_alone and is_idempotent(t)) for t in fold.totals)


def is_scan(fold: Fold) -> bool:
    """Return whether running totals of several places can be kept side by side: each has a value before its terms."""
    return fold.running and all(total.start is not None for total in fold.totals)


def identity(total: Total) -> Expr:
    """Return what further partial totals begin with: combined with it, no total changes.

    That of a sum of floats is -0.0, which keeps the sign of zeros. Extrema begin with the first value of the total.
    """
    dtype, function = total.dtype, joining(total)
    if function in _IDEMPOTENT:
        return total.term if total.start is None else total.start
    if function == "mul":
        return tree.literal(1, dtype)
    starts_with_zero = isinstance(total.start, tree.Literal) and total.start.value == 0
    return tree.literal(-0.0 if dtype.is_float and not starts_with_zero else 0, dtype)
