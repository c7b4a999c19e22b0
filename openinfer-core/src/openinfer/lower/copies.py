"""Copies of statements: how far they lie apart, and what each of them reads."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from openinfer.affine import Within
    from openinfer.loops import Leaf
    from openinfer.lower.accesses import Access


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of statements.

    Attributes:
        offsets: by the number of each copied loop, how far the copy lies from the first one.
        moves: the same by axis, which several loops may walk.
    """

    offsets: Mapping[int, int]
    moves: Mapping[Var, int]

    def of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the offsets in some loops."""
        return tuple(self.offsets[number] for number in numbers)


class Copies:
    """Indices of all copies, whose first one lies at ``at``.

    Most indices are linear in the distance from the first copy, so that they are computed once.
    """

    def __init__(self, copies: Sequence[Copy], at: Mapping[Var, Index]) -> None:
        self._copies = copies
        self._at = at
        self._units = {axis: gcd(*(copy.moves[axis] for copy in copies)) for axis in copies[0].moves} if copies else {}
        self._apart = {
            axis: Var(f"{axis.name}'", max(copy.moves[axis] for copy in copies) // unit + 1)
            for axis, unit in self._units.items()
            if unit
        }
        self._everywhere = {
            **at,
            **{axis: at[axis] + var * self._units[axis] for axis, var in self._apart.items()},
        }

    def indices(self, index: Callable[[Mapping[Var, Index]], Index]) -> list[Index]:
        """Return an index, a function of the place, in each copy."""
        general = index(self._everywhere)
        slopes = {axis: general.coefficient(var) for axis, var in self._apart.items()}
        if any(slope is None for slope in slopes.values()):
            return [index(self._place(copy)) for copy in self._copies]
        first = general.substituted(dict.fromkeys(self._apart.values(), Index()))
        by_offset: dict[int, Index] = {}
        by_copy: list[Index] = []
        for copy in self._copies:
            apart = sum((slope or 0) * (copy.moves[axis] // self._units[axis]) for axis, slope in slopes.items())
            if apart not in by_offset:
                by_offset[apart] = first + apart
            by_copy.append(by_offset[apart])
        return by_copy

    def leaves(self, accesses: Mapping[int, Access], held: Collection[Within] = ()) -> list[dict[int, Leaf]]:
        """Return elements by their numbers, for each copy, where some tests hold; equal ones are one object."""
        by_copy: list[dict[int, Leaf]] = [{} for _ in self._copies]
        for number, access in accesses.items():
            indices = self.indices(access.index)
            is_guarded = any(test not in held for test in access.tests(self._everywhere))
            made: dict[tuple[object, ...], Leaf] = {}
            for copy, index, leaves in zip(self._copies, indices, by_copy, strict=True):
                needed = access.tests(self._place(copy)) if is_guarded else ()
                tests = tuple(test for test in needed if test not in held) if held else needed
                # Equal indices of a linear access are one object.
                key = (id(index) if not tests else index, tests)
                if key not in made:
                    made[key] = access.leaf(index, tests)
                leaves[number] = made[key]
        return by_copy

    def _place(self, copy: Copy) -> Mapping[Var, Index]:
        return {**self._at, **{axis: self._at[axis] + move for axis, move in copy.moves.items() if move}}


def neighbours(copies: Sequence[Copy], axis: Var | None, count: int) -> list[list[int]]:
    """Return the numbers of copies that lie next to one another along an axis, so many in a row."""
    rows: dict[tuple[tuple[Var, int], ...], dict[int, int]] = {}
    for number, copy in enumerate(copies):
        others = tuple((other, move) for other, move in copy.moves.items() if other != axis)
        rows.setdefault(others, {})[copy.moves.get(axis, 0) if axis else 0] = number
    return [
        [row[begin + offset] for offset in range(count)]
        for row in rows.values()
        for begin in sorted(row)
        if begin % count == 0 and all(begin + offset in row for offset in range(count))
    ]
