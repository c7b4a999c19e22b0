"""Sums of products, term by term."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def _summed(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    arrays = [np.asarray(x) for x in inputs]
    left, arrow, right = settings["equation"].replace(" ", "").partition("->")
    terms = [_spelt(term, x.ndim) for term, x in zip(left.split(","), arrays, strict=True)]
    extents: dict[str, int] = {}
    for term, x in zip(terms, arrays, strict=True):
        for letter, extent in zip(term, x.shape, strict=True):
            extents[letter] = extent if extents.get(letter, 1) == 1 else extents[letter]
    free = "".join(sorted(letter for letter in extents if letter.isdigit()))
    once = "".join(sorted(c for c in extents if c.isalpha() and "".join(terms).count(c) == 1))
    result = right.replace("...", free) if arrow else free + once
    summed = [letter for letter in extents if letter not in result]

    def rule(place: tuple[int, ...]) -> Any:
        total: Any = 0
        at = dict(zip(result, place, strict=True))
        for others in product(*(range(extents[letter]) for letter in summed)):
            at.update(zip(summed, others, strict=True))
            one: Any = 1
            for term, x in zip(terms, arrays, strict=True):
                one *= x[tuple(min(at[letter], n - 1) for letter, n in zip(term, x.shape, strict=True))]
            total += one
        return total

    return Elements(tuple(extents[letter] for letter in result), arrays[0].dtype, rule)


def _spelt(term: str, rank: int) -> str:
    """Return a term with a digit for each dim of its ellipsis, 9 for the last."""
    free = rank - len(term.replace("...", ""))
    return term.replace("...", "9876543210"[:free][::-1])


ORACLES: dict[str, Oracle] = {"einsum": ByElement(_summed)}
