"""What tests say of indices: the bounds that these have where the tests hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Index, Within


def is_kept_within(index: Index, extent: Index, tests: Sequence[Within]) -> bool:
    """Return whether ``0 <= index < extent`` where all tests hold: by one of them, or by all in either order."""
    chosen = (tests, tests[::-1], *((test,) for test in tests))
    return any(under(index, some).is_within(0, extent) for some in chosen)


def under(index: Index, tests: Sequence[Within]) -> Index:
    """Return an index that has the bounds of ``index`` where all tests hold.

    Each test ``0 <= t < n`` makes ``t`` a variable of extent n, so that adding multiples of the difference changes no
    value; the multiple is one that removes a term.
    """
    for number, test in enumerate(tests):
        known = Var(f"test{number}'", test.extent if test.extent.constant is None else test.extent.constant)
        factors = dict(index.terms)
        for atoms, factor in test.index.terms:
            times = factors.get(atoms, 0)
            if atoms and times and times % factor == 0:
                index = index + (known - test.index) * (times // factor)
                break
    return index
