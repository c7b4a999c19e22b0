"""Searches: folds for the place of the greatest or least element of a row, in parts that several threads carry out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Position
from openinfer.compute.substitution import moved
from openinfer.dtypes import I32
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Element, Fold, Stage, Total
    from openinfer.expr.linear import Program
    from openinfer.expr.tree import Expr

_LONGEST = 1 << 30
"""Places of a row that numbers of 32 bits hold with room to spare."""

_BEST, _TERM = ~0, ~2
"""Inputs of the combinations of two totals: the best element so far, and the next one."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A stage with a search as threads carry it out; each thread begins with the first element of the row.

    Attributes:
        stage: its places are numbers of 32 bits, and its terms include the first element where it is one of the row.
        best, place: the totals: the best element, and its place.
        wins: whether the term ``Input(~2)`` takes the place of the best element so far, ``Input(~0)``.
    """

    stage: Stage
    best: Total
    place: Total
    wins: Expr

    def joined(self) -> Expr:
        """Return whether another thread's result replaces one's own.

        ``Input(0)`` and ``Input(1)`` are one's own best element and its place, ``Input(2)`` and ``Input(3)`` those of
        the other thread. Of two results the one whose place comes first counts as found first.
        """
        dtype = self.best.dtype
        own, other = tree.Input(0, dtype), tree.Input(2, dtype)
        beats = tree.substitute(self.wins, {_BEST: own, _TERM: other})
        is_beaten = tree.substitute(self.wins, {_BEST: other, _TERM: own})
        is_later = tree.lt(tree.Input(1, I32), tree.Input(3, I32))
        return tree.select(is_later, beats, tree.logical_not(is_beaten))


def search_of(stage: Stage) -> Search | None:
    """Return a stage as a search; None: it has no fold, or another one.

    A search keeps the first or the last of equal elements, and treats NaN in one of the ways of `argmax_axis`: parts
    of a row then have results of which one is that of the whole.
    """
    fold = stage.fold
    if fold is None or fold.running or len(fold.totals) != 2 or len(fold.axes) != 1 or stage.lookups:
        return None
    best, place = fold.totals
    wins = _winning(best, place)
    at = _place(stage.elements, place)
    (axis,) = fold.axes
    if wins is None or at is None or not isinstance(axis.extent, int) or axis.extent >= _LONGEST:
        return None
    steps, span = at.coefficient(axis), at.interval
    if at.variables() != frozenset((axis,)) or not steps or steps < 0:
        return None
    start = place.start
    if span.low is None or span.high is None or span.high >= _LONGEST:
        return None
    if best.start is None or not isinstance(start, tree.Literal) or not 0 <= start.value < span.low:
        return None
    return _in_32_bits(*_with_first(stage, fold), wins)


def _winning(best: Total, place: Total) -> Expr | None:
    """Return when a term wins, if both totals then take theirs and it is known that parts can be joined."""
    match best.combine, place.combine:
        case (
            tree.Apply("select", (wins, tree.Input(-3), tree.Input(-1))),
            tree.Apply("select", (same, tree.Input(-4), tree.Input(-2))),
        ) if linearise(wins) == linearise(same) and linearise(wins) in _known(best):
            return wins
        case _:
            return None


def _known(best: Total) -> list[Program]:
    """Return the conditions that order elements: first or last of equal ones, NaN as an element or always best."""
    total, term = tree.Input(_BEST, best.dtype), tree.Input(_TERM, best.dtype)
    forms: list[Expr] = [compare(term, total) for compare in (tree.gt, tree.lt, tree.ge, tree.le)]
    if best.dtype.is_float:
        is_first = tree.logical_and(tree.is_nan(term), tree.logical_not(tree.is_nan(total)))
        forms += [tree.logical_or(compare(term, total), is_first) for compare in (tree.gt, tree.lt)]
        for compare in (tree.ge, tree.le):
            both = tree.logical_and(compare(term, total), tree.logical_not(tree.is_nan(total)))
            forms.append(tree.logical_or(tree.is_nan(term), both))
    return [linearise(expr) for expr in forms]


def _place(elements: Sequence[Element], place: Total) -> Index | None:
    """Return the place that a term has."""
    if not isinstance(place.term, tree.Input) or place.term.index < 0:
        return None
    element = elements[place.term.index]
    return element.at if isinstance(element, Position) else None


def _with_first(stage: Stage, fold: Fold) -> tuple[Stage, Fold]:
    """Return both with the start as one more term, if it has the form of one: rows then begin where they lie."""
    best, place = fold.totals
    (axis,) = fold.axes
    before: Mapping[Var, Index] = {axis: Index.of(-1)}
    first = _place([moved(element, before) for element in stage.elements], place)
    is_first = best.start is not None and _form(best.start, stage, {}) == _form(best.term, stage, before)
    is_place = isinstance(place.start, tree.Literal) and first is not None and first.constant == place.start.value
    if not is_first or not is_place or not isinstance(axis.extent, int):
        return stage, fold
    longer = Var(axis.name, axis.extent + 1)
    elements = tuple(moved(element, {axis: longer - 1}) for element in stage.elements)
    return replace(stage, elements=elements), replace(fold, axes=(longer,))


def _form(expr: Expr, stage: Stage, values: Mapping[Var, Index]) -> tuple[Program, list[Element]]:
    """Return an expression, and what it reads with variables replaced, which are equal where its values are."""
    used = linearise(expr).inputs
    inputs: dict[int, Expr] = {
        number: tree.Input(order, stage.elements[number].dtype) for order, number in enumerate(used)
    }
    return linearise(tree.substitute(expr, inputs)), [moved(stage.elements[number], values) for number in used]


def _in_32_bits(stage: Stage, fold: Fold, wins: Expr) -> Search | None:
    """Return a search whose places are numbers of 32 bits until its value is made of them."""
    best, wide = fold.totals
    at = _place(stage.elements, wide)
    if at is None or not isinstance(wide.start, tree.Literal):
        return None
    term, kept = tree.Input(len(stage.elements), I32), tree.Input(~1, I32)
    combine = tree.select(wins, tree.Input(~3, I32), kept)
    place = replace(wide, start=tree.literal(wide.start.value, I32), term=term, combine=combine)
    narrow = replace(
        stage,
        elements=(*stage.elements, Position(at, I32)),
        value=tree.substitute(stage.value, {~1: tree.cast(kept, wide.dtype)}),
        fold=replace(fold, totals=(best, place)),
    )
    return Search(narrow, best, place, wins)
