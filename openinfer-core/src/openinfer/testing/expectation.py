"""What an oracle says about the outputs of a call: every element, or some of a large one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from openinfer.testing.elements import ByElement
from openinfer.testing.values import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.elements import Place
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.values import Array

MOST_ELEMENTS = 1 << 11
"""Elements up to which an oracle that goes element by element computes them all."""

RANDOM_ELEMENTS = 64
"""Random elements of a larger result, in addition to those at its corners and on both sides of powers of two."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What an output should be.

    Attributes:
        shape: its shape, as the oracle counts it.
        values: its elements in exact form: an array of that shape, or those at ``places`` one after the other.
        places: where they are; None: everywhere.
    """

    shape: tuple[int, ...]
    values: Exact
    places: tuple[Place, ...] | None = None

    def of(self, found: Array) -> Array:
        """Return the elements of an output of this shape at the places of the values."""
        if self.places is None:
            return found
        return found[tuple(np.array(self.places).T)]

    def place(self, position: Place) -> Place:
        """Return where in the output a position among the values is."""
        return position if self.places is None else self.places[position[0]]


def expected_of(oracle: Oracle, inputs: Sequence[Exact | None], call: OpCall) -> list[Expected]:
    """Return what the outputs of a call should be."""
    if isinstance(oracle, ByElement):
        elements = oracle.elements(inputs, call)
        if math.prod(elements.shape) > MOST_ELEMENTS:
            places = places_in(elements.shape)
            return [Expected(elements.shape, elements.at(places), places)]
    return [Expected(tuple(values.shape), values) for values in oracle(inputs, call)]


def places_in(shape: tuple[int, ...]) -> tuple[Place, ...]:
    """Return the places of a large result that are checked, the same each time.

    These are its corners; the elements at both sides of each power of two, counted in row-major order and along each
    dim, where blocks, tiles and vectors of kernels end; and some at random.
    """
    found = set(product(*({0, extent - 1} for extent in shape)))
    count, random = math.prod(shape), generator("places", shape)
    flat = {*_edges(count), *random.integers(0, count, RANDOM_ELEMENTS).tolist()}
    found |= {tuple(int(index) for index in np.unravel_index(number, shape)) for number in flat}
    for axis, extent in enumerate(shape):
        for edge in _edges(extent):
            others = [int(random.integers(0, size)) for size in shape]
            found.add((*others[:axis], edge, *others[axis + 1 :]))
    return tuple(sorted(found))


def _edges(count: int) -> list[int]:
    """Return the numbers below ``count`` next to powers of two from eight on."""
    powers = [1 << bits for bits in range(3, count.bit_length())]
    return [number for power in powers for number in (power - 1, power) if number < count]
