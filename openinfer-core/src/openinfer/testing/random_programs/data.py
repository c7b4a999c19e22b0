"""Shapes and values of the variables of random programs."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np

from openinfer.dtypes import DType
from openinfer.ir.types import TensorType
from openinfer.testing.values import Draw, bounded, draw

RANKS = (0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 8)
EXTENTS = (1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 17)
MOST_ELEMENTS = 600
"""Elements of a drawn shape, but for the few that are large."""

LARGE = ((4099,), (67, 65), (2, 1, 1030), (1025, 3), (9, 16, 17))

Array = np.ndarray[Any, Any]


def drawn_shape(random: Random) -> tuple[int, ...]:
    """Return a shape of any rank: mostly small, at times with extents of zero and one, seldom large."""
    chance = random.random()
    if chance < 0.02:
        return random.choice(LARGE)
    rank = random.choice(RANKS)
    shape = [random.choice(EXTENTS) if random.random() < 0.8 else 1 for _ in range(rank)]
    while math.prod(shape) > MOST_ELEMENTS:
        shape[random.randrange(rank)] = random.choice((1, 2))
    if shape and chance < 0.08:
        shape[random.randrange(rank)] = 0
    return tuple(shape)


def drawn_values(kind: TensorType, random: Random, *, calm: bool) -> Array:
    """Return elements of a type: calm floats are small ones with few bits, integers are small or any."""
    generator = np.random.default_rng(random.randrange(1 << 32))
    if kind.dtype.is_float:
        how = Draw.DYADIC if calm else random.choice((Draw.DYADIC, Draw.STREWN, Draw.SPECIAL, Draw.CODES))
        return draw(kind.dtype, kind.shape, how, generator)
    if kind.dtype.is_integer and not kind.dtype.is_packed and random.random() < 0.4:
        return small_integers(kind, random)
    return draw(kind.dtype, kind.shape, random.choice((Draw.SPECIAL, Draw.CODES)), generator)


def small_integers(kind: TensorType, random: Random, low: int = -9, high: int = 9) -> Array:
    """Return integers between two bounds, as far as the type goes."""
    generator = np.random.default_rng(random.randrange(1 << 32))
    return bounded(kind.dtype, kind.shape, *within(kind.dtype, low, high), generator)


def within(dtype: DType, low: int, high: int) -> tuple[int, int]:
    """Return two bounds, drawn in to what a type holds."""
    least, greatest = dtype.minimum, dtype.maximum
    return low if least is None else max(low, least), high if greatest is None else min(high, greatest)
