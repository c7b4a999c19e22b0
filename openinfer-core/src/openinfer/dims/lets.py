"""Symbols of sizes that are not plain parameters: those that may be negative, and those computed from other sizes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index, Interval, Var

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.symbolic import Division


class LetKind(Enum):
    """How a `Let` follows from its parts."""

    MAX = "max"
    MIN = "min"
    FROM_END = "from_end"
    """``from_end(place, extent)``: a place, counted from the end where it is negative."""
    COMMON = "common"
    """``common(T, U)``: the first extent that is not 1, else 1: what equal extents and those of 1 broadcast to."""
    STRIDE = "stride"
    """``stride(T)``: 0 where an extent is 1, else 1: how far one place of a broadcast dim is from the next."""
    SUM = "sum"
    """An expression that divides: indices are divided by a product of symbols only."""
    FLOOR = "floor"
    """``floor(p, n)``: a quotient of the language, which divides what is at least 0 by what is at least 1 only."""
    CEIL = "ceil"
    EXACT = "exact"
    REST = "rest"


OPERATORS: Mapping[LetKind, Division] = {
    LetKind.FLOOR: "floor",
    LetKind.CEIL: "ceil",
    LetKind.EXACT: "/",
    LetKind.REST: "%",
}
"""The operators of the language that are symbols where it is open whether they have a value."""


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
class Stride(Var):
    """The parameter of a computation that is the ``stride`` of an extent: 0 or 1, and most often 1."""

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Let(Signed):
    """A symbol whose value follows from other sizes; its name is its text, so that equal ones are one symbol."""

    kind: LetKind = LetKind.SUM
    parts: tuple[Index, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)

    @staticmethod
    def of(kind: LetKind, *parts: Index) -> Let:
        """Return the symbol of some parts; the order of those of `max`, `min` and `common` does not matter."""
        if kind in (LetKind.MAX, LetKind.MIN, LetKind.COMMON):
            parts = tuple(sorted(parts, key=str))
        listed = ", ".join(map(str, parts))
        name = f"({listed})" if kind is LetKind.SUM else f"{kind.value}({listed})"
        return Let(name, None, kind, parts)

    @property
    def chosen(self) -> Index:
        """What `common` is, over its parts and their strides."""
        *firsts, total = self.parts
        for extent in reversed(firsts):
            own = stride(extent)
            total = extent * own + total - total * own
        return total

    def evaluated(self, values: Mapping[str, int]) -> int:
        """Return the value at these sizes.

        Raises:
            DivisionError: it is a division of the language, and has none.
        """
        first, *others = (evaluated(part, values) for part in self.parts)
        match self.kind:
            case LetKind.MAX:
                return max(first, *others)
            case LetKind.MIN:
                return min(first, *others)
            case LetKind.FROM_END:
                return first + others[0] if first < 0 else first
            case LetKind.COMMON:
                return next((extent for extent in (first, *others) if extent != 1), 1)
            case LetKind.STRIDE:
                return int(first != 1)
            case LetKind.SUM:
                return first
            case LetKind.FLOOR | LetKind.CEIL | LetKind.EXACT | LetKind.REST:
                return symbolic.divided(OPERATORS[self.kind], first, others[0], lambda: self.written)

    @property
    def written(self) -> str:
        """A division as the language writes it, such as ``floor(n/2)``."""
        of, by = (str(part) if len(part.terms) < 2 else f"({part})" for part in self.parts)
        operator = OPERATORS[self.kind]
        return f"{operator}({of}/{by})" if operator in symbolic.ROUNDINGS else f"{of}{operator}{by}"


def evaluated(index: Index, values: Mapping[str, int]) -> int:
    """Return the value of an index where sizes have the values under their names.

    Raises:
        KeyError: a size has no value.
        DivisionError: a division of the language has none.
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
                inner[var] = _of(var.kind, parts)
    return index.substituted(inner)


def _of(kind: LetKind, parts: tuple[Index, ...]) -> Index:
    """Return the symbol of some parts as an index; of extents that are known, what it is."""
    match kind:
        case LetKind.SUM:
            return parts[0]
        case LetKind.STRIDE:
            return stride(parts[0])
        case LetKind.COMMON:
            return common(parts)
        case LetKind.FLOOR | LetKind.CEIL | LetKind.EXACT | LetKind.REST:
            return division(OPERATORS[kind], *parts)
        case _:
            return Index.of(Let.of(kind, *parts))


def division(operator: Division, of: Index, by: Index) -> Index:
    """Return a quotient or remainder of the language: a number where both operands are, and it has a value."""
    kind = next(kind for kind, own in OPERATORS.items() if own == operator)
    let = Let.of(kind, of, by)
    if of.constant is None or by.constant is None:
        return Index.of(let)
    try:
        return Index.of(let.evaluated({}))
    except symbolic.DivisionError:
        return Index.of(let)


def stride(extent: Index) -> Index:
    """Return how far one place of a broadcast dim is from the next in a tensor of that extent there."""
    fixed = extent.constant
    return Index.of(Let.of(LetKind.STRIDE, extent)) if fixed is None else Index.of(int(fixed != 1))


def common(extents: Iterable[Index]) -> Index:
    """Return what extents broadcast to that are equal or 1."""
    apart = tuple(dict.fromkeys(part for extent in extents for part in _joined(extent) if part.constant != 1))
    fixed = next((extent for extent in apart if extent.constant is not None), None)
    if fixed is not None or len(apart) < 2:
        return fixed or next(iter(apart), Index.of(1))
    return Index.of(Let.of(LetKind.COMMON, *apart))


def _joined(extent: Index) -> tuple[Index, ...]:
    """Return the extents that an extent is common to."""
    let = next((let for let in lets_in(extent) if let.kind is LetKind.COMMON and extent == Index.of(let)), None)
    return (extent,) if let is None else let.parts


def every_symbol(index: Index) -> Iterator[Var]:
    """Yield the symbols of an index, and those that they are computed from."""
    for var in index.variables():
        yield var
        if isinstance(var, Let):
            for part in var.parts:
                yield from every_symbol(part)


def divides_by_numbers(index: Index) -> bool:
    """Return whether the divisions of the language in an index are by numbers above 0 only."""
    divisions = (var for var in every_symbol(index) if isinstance(var, Let) and var.kind in OPERATORS)
    return all((division.parts[1].constant or 0) > 0 for division in divisions)


def lets_in(index: Index) -> tuple[Let, ...]:
    """Return the computed symbols of an index, in the order of their names."""
    lets = (var for var in index.variables() if isinstance(var, Let))
    return tuple(sorted(lets, key=lambda let: let.name))


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
    return frozenset(var.name for var in every_symbol(index) if not isinstance(var, Let))
