"""What tests say of indices: the bounds that these have where the tests hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Within


def is_kept_within(index: Index, extent: Index, tests: Sequence[Within]) -> bool:
    """Return whether ``0 <= index < extent`` where all tests hold: by one of them, or by all in either order."""
    chosen = (tests, tests[::-1], *((test,) for test in tests))
    return any(under(index, some).is_within(0, extent) for some in chosen)


def under(index: Index, tests: Sequence[Within]) -> Index:
    """Return an index that has the bounds of ``index`` where all tests hold.

    Each test ``0 <= t < n`` makes ``t`` a variable of extent n, so that adding multiples of the difference changes no
    value; the multiple is one that removes a term. What is divided has these bounds likewise.
    """
    if any(not isinstance(atom, Var) for atoms, _ in index.terms for atom in atoms):
        index = _divided(index, tests)
    for number, test in enumerate(tests):
        known = Var(f"test{number}'", test.extent if test.extent.constant is None else test.extent.constant)
        factors = dict(index.terms)
        for atoms, factor in test.index.terms:
            times = factors.get(atoms, 0)
            if atoms and times and times % factor == 0:
                index = index + (known - test.index) * (times // factor)
                break
    return index


def _divided(index: Index, tests: Sequence[Within]) -> Index:
    """Return an index in which quotients and remainders are those of what has the bounds of tests."""
    total = Index()
    for atoms, factor in index.terms:
        product = Index.of(factor)
        for atom in atoms:
            match atom:
                case Var():
                    product = product * atom
                case Quotient(of, by):
                    product = product * (under(of, tests) // by)
                case _:
                    product = product * (under(atom.of, tests) % atom.by)
        total = total + product
    return total
