"""One element at a time: rounding to a type, and bit patterns (``specification: dtypes.rounding``).

Used for literals in programs and graph files, where no array library is wanted. Rounding is IEEE to nearest, ties to
even, with subnormals and overflow to infinity; low floats round from the double in one step here, since a literal has
no intermediate f32.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from openinfer.dtypes import DType, Kind

if TYPE_CHECKING:
    from typing import TypeAlias

Scalar: TypeAlias = "int | float | bool"
"""Value of one element: float for the float types, bool for bool, int for all others."""

_FRACTION_BITS = {"f8": 2, "bf16": 7, "f16": 10, "f32": 23}
_EXPONENT_BITS = {"f8": 5, "bf16": 8, "f16": 5, "f32": 8}


def round_to(dtype: DType, value: float) -> float:
    """Return ``value`` rounded to a float type, as a Python float that holds the result exactly."""
    if dtype.name == "f64" or not math.isfinite(value) or value == 0.0:
        return value
    fraction, exponent_bits = _FRACTION_BITS[dtype.name], _EXPONENT_BITS[dtype.name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    quantum = math.ldexp(1.0, exponent - fraction)
    rounded = round(value / quantum) * quantum
    limit = math.ldexp(2.0 - math.ldexp(1.0, -fraction), bias)
    if abs(rounded) > limit:
        return math.copysign(math.inf, value)
    return math.copysign(rounded, value)


def encode_bits(dtype: DType, value: Scalar) -> int:
    """Return the bit pattern of an element in its low ``dtype.bits`` bits.

    Raises:
        ValueError: an integer does not fit the type.
    """
    if dtype.is_float:
        return _encode_float(dtype, float(value))
    if dtype.name == "t1":
        return {-1: 0, 1: 1}[int(value)]
    number = int(value)
    low, high = dtype.minimum or 0, dtype.maximum or 0
    if not low <= number <= high:
        raise ValueError(f"{number} does not fit {dtype} ({low}..{high})")
    return number & ((1 << dtype.bits) - 1)


def repeated_code(dtype: DType, value: Scalar) -> int:
    """Return the byte of a packed type all of whose elements have one value.

    A t1 that is 0, as memory is before anything is stored, has the code 0: it is the number -1.

    Raises:
        ValueError: the value does not fit the type.
    """
    code = 0 if dtype.name == "t1" and not value else encode_bits(dtype, value)
    return sum(code << place for place in range(0, 8, dtype.bits))


def decode_bits(dtype: DType, bits: int) -> Scalar:
    """Return the element of a bit pattern.

    Raises:
        ValueError: bits are set beyond the width of the type, or the pattern is illegal (t2 code 2).
    """
    if not 0 <= bits < 1 << dtype.bits:
        raise ValueError(f"bit pattern {bits} is wider than {dtype} ({dtype.bits} bits)")
    if dtype.is_float:
        return _decode_float(dtype, bits)
    if dtype.kind is Kind.BOOL:
        return bool(bits)
    if dtype.name == "t1":
        return 1 if bits else -1
    if dtype.name == "t2" and bits == 2:
        raise ValueError("bit pattern 2 is not a t2 value (-1, 0 and 1 are 3, 0 and 1)")
    signed = dtype.kind in (Kind.SIGNED, Kind.TERNARY)
    return bits - (1 << dtype.bits) if signed and bits >> (dtype.bits - 1) else bits


def shortest_float(dtype: DType, value: float) -> str:
    """Return the shortest decimal text, with a point or exponent, that rounds to ``value`` in its type."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    shortest = next(t for t in _candidates(value) if round_to(dtype, float(t)) == value)
    text = repr(float(shortest))
    return text if "." in text or "e" in text else f"{text}.0"


def _candidates(value: float) -> list[str]:
    return [f"{value:.{digits}g}" for digits in range(1, 17)] + [repr(value)]


def _encode_float(dtype: DType, value: float) -> int:
    if dtype.name == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    fraction, exponent_bits = _FRACTION_BITS[dtype.name], _EXPONENT_BITS[dtype.name]
    sign = (1 if math.copysign(1.0, value) < 0 else 0) << (fraction + exponent_bits)
    top = ((1 << exponent_bits) - 1) << fraction
    if math.isnan(value):
        return sign | top | 1 << (fraction - 1)
    magnitude = abs(round_to(dtype, value))
    if math.isinf(magnitude):
        return sign | top
    bias = (1 << (exponent_bits - 1)) - 1
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - bias) if magnitude else 1 - bias
    steps = int(math.ldexp(magnitude, fraction - exponent))
    return sign | (((exponent + bias - 1) << fraction) + steps if steps >> fraction else steps)


def _decode_float(dtype: DType, bits: int) -> float:
    if dtype.name == "f64":
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    fraction, exponent_bits = _FRACTION_BITS[dtype.name], _EXPONENT_BITS[dtype.name]
    sign = -1.0 if bits >> (fraction + exponent_bits) else 1.0
    field = bits >> fraction & ((1 << exponent_bits) - 1)
    steps = bits & ((1 << fraction) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if field == (1 << exponent_bits) - 1:
        return math.copysign(math.nan if steps else math.inf, sign)
    if field == 0:
        return sign * math.ldexp(steps, 1 - bias - fraction)
    return sign * math.ldexp(steps | 1 << fraction, field - bias - fraction)


def check_fits(dtype: DType, value: Scalar) -> str | None:
    """Return why ``value`` is not a literal for ``dtype``, or None (``specification: language.attributes.2``).

    Float types take floats that stay finite unless written ``inf`` or ``nan``; an integer is refused with the fix.
    """
    if dtype.is_float:
        return _float_misfit(dtype, value)
    if isinstance(value, float):
        return f"{dtype} takes an integer, found {value!r}"
    if isinstance(value, bool):
        return None if dtype.kind is Kind.BOOL else f"{dtype} takes an integer, found {str(value).lower()}"
    low, high = dtype.minimum or 0, dtype.maximum or 0
    if not low <= value <= high or (dtype.name == "t1" and value == 0):
        legal = "-1 or 1" if dtype.name == "t1" else f"{low}..{high}"
        return f"{value} does not fit {dtype} ({legal})"
    return None


def _float_misfit(dtype: DType, value: Scalar) -> str | None:
    if isinstance(value, bool):
        return f"{dtype} takes a float, found {str(value).lower()}"
    if isinstance(value, int):
        return f"{dtype} takes a float, found the integer {value}: write {value}.0"
    if math.isfinite(value) and math.isinf(round_to(dtype, value)):
        return f"{value!r} overflows {dtype}: write inf if infinity is meant"
    return None


def converted(dtype: DType, value: Scalar) -> Scalar:
    """Return a fitting literal as the value an element of the type holds: rounded, or 0/1 turned into bool."""
    if dtype.is_float:
        return round_to(dtype, float(value))
    return bool(value) if dtype.kind is Kind.BOOL else int(value)
