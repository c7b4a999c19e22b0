"""Sums of products, term by term."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.summing import total_of_products

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.sum_errors import Terms


@dataclass(frozen=True, slots=True)
class _Letters:
    """Letters of each input and of the result, and the extent of each letter."""

    terms: list[str]
    result: str
    extents: dict[str, int]

    @property
    def summed(self) -> list[str]:
        return [letter for letter in self.extents if letter not in self.result]


def _letters(equation: str, shapes: Sequence[tuple[int, ...]]) -> _Letters:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_spelt(term, len(shape)) for term, shape in zip(left.split(","), shapes, strict=True)]
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, extent in zip(term, shape, strict=True):
            extents[letter] = extent if extents.get(letter, 1) == 1 else extents[letter]
    free = "".join(sorted(letter for letter in extents if letter.isdigit()))
    once = "".join(sorted(c for c in extents if c.isalpha() and "".join(terms).count(c) == 1))
    return _Letters(terms, right.replace("...", free) if arrow else free + once, extents)


def _summed(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    arrays = [np.asarray(x) for x in inputs]
    letters = _letters(settings["equation"], [x.shape for x in arrays])
    terms, extents, result, summed = letters.terms, letters.extents, letters.result, letters.summed

    def rule(place: tuple[int, ...]) -> Any:
        found: list[list[Any]] = []
        at = dict(zip(result, place, strict=True))
        for others in product(*(range(extents[letter]) for letter in summed)):
            at.update(zip(summed, others, strict=True))
            factors = [
                x[tuple(min(at[letter], n - 1) for letter, n in zip(term, x.shape, strict=True))]
                for term, x in zip(terms, arrays, strict=True)
            ]
            found.append(factors)
        return total_of_products(found) if arrays[0].dtype == float else sum(map(prod, found))

    return Elements(tuple(extents[letter] for letter in result), arrays[0].dtype, rule)


def _spelt(term: str, rank: int) -> str:
    """Return a term with a digit for each dim of its ellipsis, 9 for the last."""
    free = rank - len(term.replace("...", ""))
    return term.replace("...", "9876543210"[:free][::-1])


ORACLES: dict[str, Oracle] = {"einsum": ByElement(_summed)}


def _terms(call: OpCall) -> int:
    """Return the number of products that are added up, and of the factors of each."""
    letters = _letters(str(call.settings["equation"]), [given.shape for given in call.inputs if given is not None])
    return prod(letters.extents[letter] for letter in letters.summed) + len(call.inputs)


SUMS: dict[str, Terms] = {"einsum": _terms}
