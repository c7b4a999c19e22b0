"""Values for conformance cases: special ones, random ones, and the ways between stored and exact form."""

from __future__ import annotations

import math
import zlib
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.float_formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from openinfer.testing.oracle import Exact

    Array: TypeAlias = npt.NDArray[Any]


_WIDTHS = (3, 4, 7, 8, 15, 16, 31, 32, 63, 64)
"""Powers of two at which the ranges of integer types end."""


class Draw(Enum):
    """How the values of an operand are drawn.

    ``SPECIAL``: limits, zeros, NaN, infinities, subnormals and ties, shuffled, then repeated.
    ``CODES``: any bit pattern of the type but a signalling NaN; about one float in eight is NaN, an infinity or a zero
    of either sign.
    ``DYADIC``: zero and floats of three significant bits up to 3.5, whose products and sums of a few hundred terms are
    exact in f32, so that no order of summation shows; integers of any size.
    ``STREWN``: as ``DYADIC``, with the same for one float in four; such sums show no order either.
    ``ROUGH``: floats between -1 and 1 of all significant bits, so that products and sums round; else as ``DYADIC``.
    """

    SPECIAL = "special"
    CODES = "codes"
    DYADIC = "dyadic"
    STREWN = "strewn"
    ROUGH = "rough"


def generator(*labels: object) -> np.random.Generator:
    """Return a generator of random numbers that depends on the labels alone."""
    return np.random.default_rng(zlib.crc32("/".join(map(str, labels)).encode()))


def draw(dtype: DType, shape: tuple[int, ...], how: Draw, random: np.random.Generator) -> Array:
    """Return an array as a host passes it (packed types: one element an item)."""
    if dtype.kind is Kind.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if how is Draw.SPECIAL:
        known = specials(dtype)
        return random.permutation(np.resize(known, int(np.prod(shape)))).reshape(shape)
    if dtype.is_float:
        return _FLOATS[how](dtype, shape, random)
    return bounded(dtype, shape, *_range(dtype), random)


def bounded(dtype: DType, shape: tuple[int, ...], low: int, high: int, random: np.random.Generator) -> Array:
    """Return an array of integers (also as floats) between two bounds, inclusive."""
    wide = np.uint64 if low >= 0 else np.int64
    drawn: Array = random.integers(low, high, shape, dtype=wide, endpoint=True)
    if dtype.kind is Kind.TERNARY and dtype.bits == 1:
        drawn = np.where(drawn == 0, 1, drawn)
    return np.asarray(drawn).astype(storage_dtype(dtype))


def held_within(array: Array, dtype: DType, low: float, high: float, random: np.random.Generator) -> Array:
    """Return an array with other values in place of those outside two bounds, inclusive."""
    outside = ~((array >= low) & (array <= high))
    if dtype.is_float:
        others = random.uniform(low, high, array.shape).astype(array.dtype)
        # Rounding to the type may lead past a bound.
        others = np.where((others >= low) & (others <= high), others, np.asarray((low + high) / 2).astype(array.dtype))
    elif dtype.minimum is None or dtype.maximum is None:
        return array
    else:
        least, greatest = max(math.ceil(low), dtype.minimum), min(math.floor(high), dtype.maximum)
        others = bounded(dtype, array.shape, least, max(least, greatest), random)
    return np.where(outside, others, array).astype(array.dtype)


def types_of_language(dtypes: Mapping[str, DType]) -> dict[str, DType]:
    """Return the element types that programs can be written with; what plugins add can only be listed."""
    return {name: dtype for name, dtype in dtypes.items() if BY_NAME.get(name) is dtype}


def specials(dtype: DType) -> Array:
    """Return the values of a type at which rules change."""
    if not dtype.is_float:
        low, high = _range(dtype)
        near = {low, low + 1, high, high - 1, 0, 1, -1, 2, -2, 3, 7, -7, high // 2, low // 2, high // 3}
        # A tie in f32, what rounds to one by way of f64, and what rounds to one of bf16 by way of f32.
        near |= {(1 << 24) + 1, (1 << 54) + (1 << 30) + 1, (1 << 30) + (1 << 22) + 1, -(1 << 30) - (1 << 22) - 1}
        legal = sorted(v for v in near if low <= v <= high and (dtype.name != "t1" or v))
        return np.array(legal, dtype=storage_dtype(dtype))
    form = FORMATS[dtype.name]
    sizes = [0.0, form.greatest, form.normal, form.least, 1.0, 0.5, 1.5, 2.5, 3.0, 0.1, 7.0, 100.0, 1 + form.epsilon]
    sizes += [2.0**bits for bits in _WIDTHS if 2.0**bits <= form.greatest]
    sizes += [1 + low.epsilon / 2 + form.epsilon for low in FORMATS.values() if low.epsilon > 2 * form.epsilon]
    values = [sign * size for size in sizes for sign in (1.0, -1.0)]
    return np.array([*values, np.nan, np.inf, -np.inf], dtype=np.float64).astype(storage_dtype(dtype))


def exact(array: Array, dtype: DType) -> Exact:
    """Return stored values in exact form."""
    if dtype.kind is Kind.BOOL:
        return array
    return array.astype(np.float64) if dtype.is_float else array.astype(object)


def stored(values: Exact, dtype: DType) -> Array:
    """Return exact values as the type holds them: floats rounded to nearest even (low ones by way of f32), integers
    wrapped."""
    kind = storage_dtype(dtype)
    if dtype.kind is Kind.BOOL or dtype.kind is Kind.TERNARY:
        return values.astype(kind)
    if dtype.is_float:
        return values.astype(np.float32).astype(kind) if dtype.is_low_float else values.astype(kind)
    return _wrapped(values, dtype).astype(kind)


def _wrapped(values: Exact, dtype: DType) -> Exact:
    span = 1 << dtype.bits
    low = -(span >> 1) if dtype.kind is Kind.SIGNED else 0
    out = np.empty(values.shape, dtype=object)
    out.reshape(-1)[:] = [(int(v) - low) % span + low for v in values.reshape(-1).tolist()]
    return out


def _range(dtype: DType) -> tuple[int, int]:
    if dtype.kind is Kind.BITSET:
        return 0, 255
    if dtype.minimum is None or dtype.maximum is None:
        return -1, 1
    return dtype.minimum, dtype.maximum


def _codes(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    count = int(np.prod(shape)) * dtype.bits // 8
    codes = np.frombuffer(random.bytes(count), dtype=f"u{dtype.bits // 8}").reshape(shape)
    values = codes.view(storage_dtype(dtype))
    # A signalling NaN makes a NaN of what a quiet one leaves a number, such as its power 0.
    quiet = codes | codes.dtype.type(1 << (FORMATS[dtype.name].fraction - 1))
    with np.errstate(invalid="ignore"):
        values = np.where(np.isnan(values), quiet, codes).view(values.dtype)
    return _mixed(values, 1 / 8, random)


def _dyadic(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    size = random.integers(4, 8, shape) * np.exp2(random.integers(-4, 0, shape).astype(np.float64))
    signed = size * random.choice([-1.0, 1.0], shape) * (random.random(shape) > 0.1)
    return np.asarray(signed).astype(storage_dtype(dtype))


def _strewn(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    return _mixed(_dyadic(dtype, shape, random), 1 / 4, random)


def _mixed(values: Array, share: float, random: np.random.Generator) -> Array:
    """Return floats with a share of them replaced."""
    others = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], values.shape).astype(values.dtype)
    return np.where(random.random(values.shape) < share, others, values)


def _rough(dtype: DType, shape: tuple[int, ...], random: np.random.Generator) -> Array:
    return np.asarray(random.uniform(-1, 1, shape)).astype(storage_dtype(dtype))


_FLOATS = {Draw.CODES: _codes, Draw.DYADIC: _dyadic, Draw.STREWN: _strewn, Draw.ROUGH: _rough}
