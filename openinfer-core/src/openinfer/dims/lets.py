"""Symbols of sizes that are not plain parameters: those that may be negative, and those computed from other sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from openinfer.affine import Index, Interval, Var

if TYPE_CHECKING:
    from collections.abc import Mapping


class LetKind(Enum):
    """How a `Let` follows from its parts."""

    MAX = "max"
    MIN = "min"
    FROM_END = "from_end"
    """``from_end(place, extent)``: a place, counted from the end where it is negative."""
    SUM = "sum"
    """An expression that divides: indices are divided by a product of symbols only."""


@dataclass(frozen=True, slots=True)
class Signed(Var):
    """A symbol that may be negative, such as a place that a step reads from memory."""

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def interval(self) -> Interval:
        """No bound: those of sizes are in `openinfer.dims.Knowledge`."""
        return Interval(None, None)


@dataclass(frozen=True, slots=True)
class Let(Signed):
    """A symbol whose value follows from other sizes; its name is its text, so that equal ones are one symbol."""

    kind: LetKind = LetKind.SUM
    parts: tuple[Index, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    @staticmethod
    def of(kind: LetKind, *parts: Index) -> Let:
        """Return the symbol of some parts; the order of those of `max` and `min` does not matter."""
        if kind in (LetKind.MAX, LetKind.MIN):
            parts = tuple(sorted(parts, key=str))
        listed = ", ".join(map(str, parts))
        name = f"({listed})" if kind is LetKind.SUM else f"{kind.value}({listed})"
        return Let(name, None, kind, parts)

    def evaluated(self, values: Mapping[str, int]) -> int:
        """Return the value at these sizes."""
        first, *others = (evaluated(part, values) for part in self.parts)
        match self.kind:
            case LetKind.MAX:
                return max(first, *others)
            case LetKind.MIN:
                return min(first, *others)
            case LetKind.FROM_END:
                return first + others[0] if first < 0 else first
            case LetKind.SUM:
                return first


def evaluated(index: Index, values: Mapping[str, int]) -> int:
    """Return the value of an index where sizes have the values under their names.

    Raises:
        KeyError: a size has no value.
    """
    lets = {var.name: var.evaluated(values) for var in index.variables() if isinstance(var, Let)}
    return index.evaluate({**values, **lets} if lets else values)


def substituted(index: Index, values: Mapping[Var, Index]) -> Index:
    """Return an index with symbols replaced, also within the symbols that are computed from them."""
    inner = dict(values)
    for var in index.variables():
        if isinstance(var, Let) and var not in inner:
            parts = tuple(substituted(part, values) for part in var.parts)
            if parts != var.parts:
                inner[var] = parts[0] if var.kind is LetKind.SUM else Index.of(Let.of(var.kind, *parts))
    return index.substituted(inner)


def divisor(by: Index) -> Index:
    """Return a positive index as indices divide by it: a product of symbols, or one symbol for any other expression."""
    atoms, factor = by.terms[0]
    is_product = len(by.terms) == 1 and factor > 0 and all(isinstance(atom, Var) for atom in atoms)
    return by if is_product else Index.of(Let.of(LetKind.SUM, by))


def positive(index: Index) -> Index:
    """Return an index that has the same value where that is above 0: ``e`` for ``max(e, 0)``."""
    let = index.terms[0][0][0] if len(index.terms) == 1 and index.terms[0][0] else None
    if not isinstance(let, Let) or index != Index.of(let) or let.kind is not LetKind.MAX or Index() not in let.parts:
        return index
    return next((part for part in let.parts if part != Index()), index)


def sources(index: Index) -> frozenset[str]:
    """Return the names of the sizes that an index depends on."""
    names: set[str] = set()
    for var in index.variables():
        if isinstance(var, Let):
            names.update(*map(sources, var.parts))
        else:
            names.add(var.name)
    return frozenset(names)
