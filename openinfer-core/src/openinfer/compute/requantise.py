"""Requantisation: a total of integers becomes a code of few bits, by a multiplier in f32 that is rounded to even.

``cast(round_even(v) + zero)`` is what `quantize_linear` stands for once its operands are known. Where ``v`` is proved
to be below `LARGEST`, adding `SHIFT` rounds it to an integer, half to even, which then is the low bits of the sum: the
same code by one addition of f32 and arithmetic of i32, without functions of the C library and without the tests of a
conversion that saturates.
"""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, F64, I8, I32, U8
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.expr.tree import Expr

SHIFT = 12582912.0
"""1.5 * 2^23: numbers from 2^23 to 2^24 are integers, and the last 22 bits of those near it count up from zero."""

UNUSED_BITS = 10
"""Bits of a sum with `SHIFT` that are its sign, its exponent, and the one that `SHIFT` sets."""

LARGEST = float(1 << 21)
"""Below this magnitude 22 bits hold an integer with its sign."""

_ROUNDING = 1 + 2.0**-20
"""More than one operation of f32 adds to a magnitude."""


def requantised(value: Expr, magnitudes: Mapping[int, float]) -> Expr:
    """Return an expression with the codes that it rounds to in the form of this module, as far as that is proved.

    Args:
        magnitudes: by number of an input, what no finite value of it exceeds; others are only bounded by their type.
    """
    if not isinstance(value, tree.Apply):
        return value
    made = _code(value, magnitudes)
    if made is not None:
        return made
    return tree.Apply(value.function, tuple(requantised(arg, magnitudes) for arg in value.args), value.dtype)


def _code(value: tree.Apply, magnitudes: Mapping[int, float]) -> Expr | None:
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
    if kind is not F32 or zero != int(zero) or abs(zero) >= LARGEST / 2 or magnitude(number, magnitudes) >= LARGEST:
        return None
    bits = tree.to_bits(tree.add(number, tree.literal(SHIFT, F32)))
    unused = tree.literal(UNUSED_BITS, I32)
    number = tree.shr(tree.shl(tree.cast(bits, I32), unused), unused)
    code = tree.add(number, tree.literal(int(zero), I32)) if zero else number
    if value.dtype is I8:
        return tree.cast(tree.clip8(code), I8)
    low, high = (tree.literal(int(limit or 0), I32) for limit in (value.dtype.minimum, value.dtype.maximum))
    return tree.cast(tree.minimum(tree.maximum(code, low), high), value.dtype)


def magnitude(expr: Expr, magnitudes: Mapping[int, float]) -> float:
    """Return what the magnitude of an expression does not exceed; infinity: it may overflow, or is not known."""
    match expr:
        case tree.Input(number, dtype):
            return magnitudes.get(number, _of_type(expr))
        case tree.Literal(value):
            return abs(float(value)) if isfinite(value) else inf
        case tree.Apply("cast", (operand,), dtype):
            most = inf if operand.dtype.is_float and not dtype.is_float else magnitude(operand, magnitudes)
        case tree.Apply("add" | "sub", (a, b), dtype):
            most = magnitude(a, magnitudes) + magnitude(b, magnitudes)
        case tree.Apply("mul", (a, b), dtype):
            most = magnitude(a, magnitudes) * magnitude(b, magnitudes)
        case tree.Apply("div", (a, tree.Literal(value)), dtype) if dtype.is_float and value:
            most = magnitude(a, magnitudes) / abs(float(value))
        case _:
            return _of_type(expr)
    # Low floats round by more, and overflow: f16 beyond 65,519.
    if dtype in (F32, F64) and most == most:
        return most * _ROUNDING
    return most if dtype is I32 and most < 2.0**31 else _of_type(expr)


def _of_type(expr: Expr) -> float:
    dtype = expr.dtype
    if dtype.is_float or dtype.minimum is None or dtype.maximum is None:
        return inf
    return float(max(-dtype.minimum, dtype.maximum))
