"""Oracles that compute one element at a time: of a large result, some elements are then enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact

    Place: TypeAlias = tuple[int, ...]


def _unchanged(values: Exact) -> Exact:
    return values


@dataclass(frozen=True, slots=True)
class Elements:
    """The result of one call.

    Attributes:
        shape: as it follows from inputs and settings; never what the schema under test says.
        kind: NumPy type of exact values.
        rule: from a place in the result to its element.
        finish: what is made of elements afterwards, in an array of any shape.
    """

    shape: tuple[int, ...]
    kind: Any
    rule: Callable[[Place], Any]
    finish: Callable[[Exact], Exact] = _unchanged

    def at(self, places: Sequence[Place]) -> Exact:
        """Return the elements at some places, one after the other."""
        found = np.empty(len(places), dtype=self.kind)
        for number, place in enumerate(places):
            found[number] = self.rule(place)
        return self.finish(found)

    def whole(self) -> Exact:
        """Return every element."""
        found = np.empty(self.shape, dtype=self.kind)
        for place in np.ndindex(*self.shape):
            found[place] = self.rule(place)
        return self.finish(found)


@dataclass(frozen=True, slots=True)
class ByElement:
    """An oracle of one output, element by element."""

    elements: Callable[[Sequence[Exact | None], OpCall], Elements]

    def __call__(self, inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        """Return the whole result."""
        return (self.elements(inputs, call).whole(),)
