"""How the threads of a group combine their scalars: by shuffles within a subgroup, through shared memory beyond."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops import Join

SHUFFLED = frozenset({"float", "int", "uint", "bool"})
"""GLSL types of values that threads of a subgroup can exchange."""


@dataclass(frozen=True, slots=True)
class Team:
    """The threads of a group along one loop.

    Attributes:
        size: how many there are.
        stride: by how much the numbers of neighbours differ.
        threads: how many threads the group has.
    """

    size: int
    stride: int
    threads: int

    def shuffles(self, subgroup: int) -> tuple[int, ...]:
        """Return the distances of partners, of which each thread gets the scalars in turn; () where it cannot."""
        within = min(self.size, subgroup)
        is_even = within & (within - 1) == 0 and self.size % within == 0
        if self.stride != 1 or not is_even or self.threads % subgroup:
            return ()
        return tuple(1 << bit for bit in range(within.bit_length() - 1))

    def parts(self, subgroup: int) -> int:
        """Return how many subgroups the threads along the loop fill."""
        return self.size // min(self.size, subgroup)

    def halves(self) -> Iterator[tuple[int, int]]:
        """Yield, for each step of a tree through shared memory, the distance of partners and how many are left."""
        left = self.size
        while left > 1:
            half = (left + 1) // 2
            yield half, left
            left = half


def team_of(join: Join, axes: Sequence[Var], extents: Sequence[int]) -> Team:
    """Return the threads that a join combines, of those of nested loops."""
    along = axes.index(join.over)
    return Team(extents[along], prod(extents[along + 1 :]), prod(extents))
