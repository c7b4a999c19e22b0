"""Requantisation: a total of integers becomes a code of few bits, by a multiplier in f32 that is rounded to even.

``cast(round_even(v) + zero)`` is what `quantize_linear` stands for once its operands are known. Where ``v`` is proved
to be below `LARGEST`, adding `SHIFT` rounds it to an integer, half to even, which then is the low bits of the sum: the
same code by one addition of f32 and arithmetic of i32, without functions of the C library and without the tests of a
conversion that saturates. An even zero point is part of the same addition: halves still go to even numbers.

Without an FPU each of these operations is a function of a library. There the product is one of integers, `scale`, which
computes in floats only where f32 might round to another side of a half. Where all multipliers of a layer are integers
below 2^31 times one power of two, they are stored as such (`fixed_multipliers`), and the function `requantise` makes a
code of a total by a dozen instructions.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

import numpy as np

from openinfer.compute.exact_sums import largest_of
from openinfer.dtypes import F32, F64, I8, I32, U8
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from openinfer.expr.tree import Expr

    Bound = npt.NDArray[np.float64] | np.float64

SHIFT = 12582912.0
"""1.5 * 2^23: numbers from 2^23 to 2^24 are integers, and the last 22 bits of those near it count up from zero."""

UNUSED_BITS = 10
"""Bits of a sum with `SHIFT` that are its sign, its exponent, and the one that `SHIFT` sets."""

LARGEST = float(1 << 21)
"""Below this magnitude 22 bits hold an integer with its sign."""

FARTHEST_ZERO = 256
"""With such a zero point, what `scale` limits is past either limit of a byte."""

_ROUNDING = 1 + 2.0**-20
"""More than one operation of f32 adds to a magnitude."""


def requantised(value: Expr, magnitudes: Mapping[int, Bound], *, has_floats: bool = True) -> Expr:
    """Return an expression with the codes that it rounds to in the form of this module, as far as that is proved.

    Args:
        magnitudes: by number of an input, what no finite value of it exceeds, for all channels or for each of them;
            others are only bounded by their type.
        has_floats: whether the machine computes in floats.
    """
    if not isinstance(value, tree.Apply):
        return value
    made = _code(value, magnitudes, has_floats=has_floats)
    if made is not None:
        return made
    args = tuple(requantised(arg, magnitudes, has_floats=has_floats) for arg in value.args)
    match value.function, args:
        case "cast", (tree.Apply("cast", (tree.Apply("clip8") as code,), stored),) if (
            stored is I8 and value.dtype is I32
        ):
            # The code that a residual is added to is within the limits of a byte.
            return code
        case _:
            pass
    return tree.Apply(value.function, args, value.dtype)


def _code(value: tree.Apply, magnitudes: Mapping[int, Bound], *, has_floats: bool) -> Expr | None:
    match value:
        case tree.Apply("cast", (tree.Apply("trunc", (rounded,), _),), dtype) if dtype in (I8, U8):
            pass
        case tree.Apply("cast", (rounded,), dtype) if dtype in (I8, U8):
            pass
        case _:
            return None
    match rounded:
        case tree.Apply("add", (tree.Apply("round_even", (number,), _), tree.Literal(zero)), kind):
            pass
        case tree.Apply("round_even", (number,), kind):
            zero = 0
        case _:
            return None
    if kind is not F32 or not abs(zero) < LARGEST / 2 or zero != int(zero):
        return None
    code = _rounded(number, int(zero), magnitudes) if has_floats else _scaled(number, int(zero), magnitudes)
    if code is None:
        return None
    if value.dtype is I8:
        return tree.cast(tree.clip8(code), I8)
    low, high = (tree.literal(int(limit or 0), I32) for limit in (value.dtype.minimum, value.dtype.maximum))
    return tree.cast(tree.minimum(tree.maximum(code, low), high), value.dtype)


def _rounded(number: Expr, zero: int, magnitudes: Mapping[int, Bound]) -> Expr | None:
    """Return a number, rounded to even, and a zero point as an i32; None: its range is not proved."""
    added, after = (0, zero) if zero % 2 else (zero, 0)
    if not (magnitude(number, magnitudes) + abs(added) < LARGEST).all():
        return None
    bits = tree.to_bits(tree.add(number, tree.literal(SHIFT + added, F32)))
    unused = tree.literal(UNUSED_BITS, I32)
    code = tree.shr(tree.shl(tree.cast(bits, I32), unused), unused)
    return tree.add(code, tree.literal(after, I32)) if after else code


def _scaled(number: Expr, zero: int, magnitudes: Mapping[int, Bound]) -> Expr | None:
    """Return the same by a product of integers, as far as it is a code; None: it is not a product with an i32."""
    match number:
        case tree.Apply("mul", (tree.Apply("cast", (x,), _), m) | (m, tree.Apply("cast", (x,), _)), _) if (
            x.dtype is I32 and m.dtype is F32
        ):
            pass
        case _:
            return None
    if abs(zero) > FARTHEST_ZERO or not (magnitude(number, magnitudes) < LARGEST).all():
        return None
    return tree.add(tree.scale(m, x), tree.literal(zero, I32))


def magnitude(expr: Expr, magnitudes: Mapping[int, Bound]) -> Bound:
    """Return what the magnitude of an expression does not exceed; infinity: it may overflow, or is not known.

    Bounds of elements that differ from channel to channel have an element for each of them, and so has the result.
    """
    match expr:
        case tree.Input(number):
            return magnitudes.get(number, _of_type(expr))
        case tree.Literal(value):
            return np.float64(abs(float(value)) if isfinite(value) else inf)
        case tree.Apply("cast", (operand,), dtype):
            most = np.float64(inf)
            if dtype.is_float or not operand.dtype.is_float:
                most = magnitude(operand, magnitudes)
        case tree.Apply("add" | "sub", (a, b), dtype):
            most = magnitude(a, magnitudes) + magnitude(b, magnitudes)
        case tree.Apply("mul", (a, b), dtype):
            left, right = magnitude(a, magnitudes), magnitude(b, magnitudes)
            with np.errstate(invalid="ignore"):
                most = left * right
        case tree.Apply("div", (a, tree.Literal(value)), dtype) if dtype.is_float and value:
            most = magnitude(a, magnitudes) / abs(float(value))
        case _:
            return _of_type(expr)
    # Low floats round by more, and overflow: f16 beyond 65,519.
    if dtype in (F32, F64):
        return np.where(np.isnan(most), inf, most * _ROUNDING)
    return most if dtype is I32 and (most < 2.0**31).all() else _of_type(expr)


def _of_type(expr: Expr) -> Bound:
    largest = largest_of(expr.dtype)
    return np.float64(inf if largest is None else largest)
