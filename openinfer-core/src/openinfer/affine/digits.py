"""Digits of variables: `(i)//5` and `(i)%5` are those of `i`, and `5*((i)//5) + (i)%5` is `i` again."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.affine.index import Index, Quotient, Remainder, Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine.index import Atom


def digits_of(place: Index, extents: Sequence[int]) -> list[Index]:
    """Return the indices along axes of these extents of a place in row-major order.

    All are taken of one rest after the other, so that `rejoined` and `split` know them again.
    """
    found: list[Index] = []
    rest, below = place, prod(extents)
    for number, extent in enumerate(extents):
        below //= max(extent, 1)
        if not below:
            found.append(Index())
        elif number == len(extents) - 1:
            found.append(rest)
        else:
            found.append(rest // below)
            rest = rest % below
    return found


def rejoined(index: Index) -> Index:
    """Return an index whose quotients and remainders by one divisor are added up to what was divided."""
    while (joined := _joined(index)) is not None:
        index = joined
    return index


def split(index: Index) -> Index:
    """Return an index over one variable for each digit, where a variable occurs in its digits only, each of them once.

    The digits of a variable then take every combination of values: 15 places are 3 quotients by 5 times 5 remainders.
    """
    atoms = {atom for atoms, _ in index.terms for atom in atoms}
    parts: dict[Atom, tuple[Quotient, Remainder]] = {}
    while (pair := _digits(atoms)) is not None:
        of, high, low = pair
        atoms = (atoms - {high, low}) | {of}
        parts[of] = (high, low)
    found: dict[Atom, Index] = {}
    for atom in atoms & parts.keys():
        if isinstance(atom, Var) and isinstance(atom.extent, int):
            found |= _leaves(atom, atom.extent, parts) or {}
    if not found:
        return index
    total = Index()
    for atoms_of_term, factor in index.terms:
        product = Index.of(factor)
        for atom in atoms_of_term:
            product = product * found.get(atom, Index.of(atom))
        total = total + product
    return total


def _joined(index: Index) -> Index | None:
    for atoms, factor in index.terms:
        for place, low in enumerate(atoms):
            if not isinstance(low, Remainder):
                continue
            rest = _product((*atoms[:place], *atoms[place + 1 :]), factor)
            high = rest * Quotient(low.of, low.by) * low.by
            if high.terms[0] in index.terms:
                return index - _product(atoms, factor) - high + rest * low.of
    return None


def _product(atoms: tuple[Atom, ...], factor: int) -> Index:
    total = Index.of(factor)
    for atom in atoms:
        total = total * atom
    return total


def _digits(atoms: set[Atom]) -> tuple[Atom, Quotient, Remainder] | None:
    """Return an atom and the quotient and remainder of it that are among some atoms, it itself not being there."""
    for low in atoms:
        if not isinstance(low, Remainder) or len(low.of.terms) != 1:
            continue
        (of, factor), high = low.of.terms[0], Quotient(low.of, low.by)
        if len(of) == factor == 1 and high in atoms and of[0] not in atoms:
            return of[0], high, low
    return None


def _leaves(atom: Atom, extent: int, parts: dict[Atom, tuple[Quotient, Remainder]]) -> dict[Atom, Index] | None:
    """Return a variable for each digit of an atom; None: not every combination of digits occurs."""
    if atom not in parts:
        return {atom: Index.of(Var(f"{atom.text}'", extent))}
    high, low = parts[atom]
    by = low.by.constant
    if by is None or extent % by:
        return None
    upper, lower = _leaves(high, extent // by, parts), _leaves(low, by, parts)
    return None if upper is None or lower is None else upper | lower
