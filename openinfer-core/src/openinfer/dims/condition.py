"""Conditions on sizes: what a comparison asks, and what a guard demands."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import gcd
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dims.lets import evaluated

if TYPE_CHECKING:
    from collections.abc import Mapping


class Relation(Enum):
    """How an index compares with 0."""

    AT_LEAST = ">="
    EQUAL = "=="
    UNEQUAL = "!="


@dataclass(frozen=True, slots=True)
class Condition:
    """``index >= 0``, ``index == 0`` or ``index != 0``, without a common factor."""

    index: Index
    relation: Relation

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", _reduced(self.index, self.relation))

    def negated(self) -> Condition:
        """Return the condition that holds where this one does not."""
        if self.relation is Relation.AT_LEAST:
            return Condition(-self.index - 1, Relation.AT_LEAST)
        opposite = Relation.UNEQUAL if self.relation is Relation.EQUAL else Relation.EQUAL
        return Condition(self.index, opposite)

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return whether the condition holds at these sizes.

        Raises:
            KeyError: a size has no value.
        """
        number = evaluated(self.index, values)
        return number >= 0 if self.relation is Relation.AT_LEAST else (number == 0) is (self.relation is Relation.EQUAL)

    @property
    def sides(self) -> tuple[Index, Index]:
        """What is compared, with positive terms on both sides."""
        subtracted = Index(tuple((atoms, -factor) for atoms, factor in self.index.terms if factor < 0))
        return self.index + subtracted, subtracted

    def __str__(self) -> str:
        """Return the condition with positive terms only, such as ``2*T == U + 1``."""
        left, right = self.sides
        return f"{left} {self.relation.value} {right}"


def _reduced(index: Index, relation: Relation) -> Index:
    """Return an index that compares alike: divided by the common factor of its terms, an equation from a positive term.

    In ``2*T - 3 >= 0`` the constant is rounded down, because T is an integer: ``T - 2 >= 0``.
    """
    factors = [factor for atoms, factor in index.terms if atoms]
    if not factors:
        return index
    if relation is not Relation.AT_LEAST and factors[0] < 0:
        index = -index
    constant = next((factor for atoms, factor in index.terms if not atoms), 0)
    common = gcd(*factors)
    if common == 1 or (relation is not Relation.AT_LEAST and constant % common):
        return index
    return Index(tuple((atoms, factor // common) for atoms, factor in index.terms if atoms)) + constant // common
