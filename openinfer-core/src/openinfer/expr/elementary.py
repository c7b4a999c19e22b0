"""Elementary functions of f32 as expressions of arithmetic, comparisons and bits: the same bits without any library.

They do not branch, so that compilers turn loops over them into vector instructions, and no product is fused with a sum.
Infinite, NaN, zero (with its sign) and subnormal results are those of IEEE. Largest errors, in units in the
last place over all f32, as `benchmarks/elementary_errors.py` measures them:

========  =====  ===============================================================================================
function  error  method
========  =====  ===============================================================================================
exp       2      2^n e^r with r within ln 2 / 2, by a polynomial; the power of two in two factors, for subnormals
log       2      with m within the roots of 1/2 and 2, and s = (m - 1) / (m + 1): 2 artanh s by a polynomial
tanh      2      an odd polynomial below 0.6, else 1 - 2 / (e^2x + 1)
erf       2      an odd polynomial below 0.92, else 1 - e^(-x q(x)) with a polynomial q
sin, cos  2      the argument modulo 4 quarter turns in f64, by parts of 2/pi with 28 bits each, so that products are
                 exact; then polynomials within pi/4
========  =====  ===============================================================================================

Polynomials are minimax fits (least squares that are reweighted by their errors, after Lawson), rounded to f32.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, F64, U32
from openinfer.expr import tree
from openinfer.expr.tree import Apply, Expr, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _f32(value: float) -> Expr:
    return tree.literal(value, F32)


def _u32(value: int) -> Expr:
    return tree.literal(value, U32)


def _polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return the polynomial with these coefficients, lowest first, by Horner's rule."""
    *rest, last = coefficients
    total = _f32(last)
    for coefficient in reversed(rest):
        total = tree.add(tree.mul(total, x), _f32(coefficient))
    return total


def _sum(*terms: Expr) -> Expr:
    return functools.reduce(tree.add, terms)


def _clipped(x: Expr, low: float, high: float) -> Expr:
    """Return ``x`` within bounds; NaN stays NaN."""
    below = tree.select(tree.lt(x, _f32(low)), _f32(low), x)
    return tree.select(tree.gt(x, _f32(high)), _f32(high), below)


def _with_sign(magnitude: Expr, x: Expr) -> Expr:
    """Return a positive number with the sign of ``x``."""
    sign = tree.bit_and(tree.to_bits(x), _u32(0x80000000))
    return tree.from_bits(tree.bit_or(tree.to_bits(magnitude), sign))


_SHIFT = 12582912.0
"""1.5 * 2^23: added to a small number, it leaves the nearest integer in the last bits."""

_SHIFT_BITS = 0x4B400000

_LN2 = (0.693359375, -2.12194440e-4)
"""ln 2 as a number with few bits and the rest: products of the first with integers are exact."""

_EXP = (
    *(0.5, 0.1666666716337204, 0.041666463017463684, 0.008333285339176655),
    *(0.0013933823211118579, 0.00019907834939658642),
)


def _exp(argument: Expr) -> Expr:
    x = _clipped(argument, -104.0, 89.0)
    shifted = tree.add(tree.mul(x, _f32(1.0 / math.log(2.0))), _f32(_SHIFT))
    n = tree.sub(shifted, _f32(_SHIFT))
    r = tree.sub(tree.sub(x, tree.mul(n, _f32(_LN2[0]))), tree.mul(n, _f32(_LN2[1])))
    power = tree.add(_f32(1.0), tree.add(r, tree.mul(tree.mul(r, r), _polynomial(r, _EXP))))
    # The exponent n + 256 in two parts, each of which is that of a normal number.
    exponent = tree.sub(tree.to_bits(shifted), _u32(_SHIFT_BITS - 256))
    half = tree.shr(exponent, _u32(1))
    first, second = (
        tree.from_bits(tree.shl(tree.sub(part, _u32(1)), _u32(23))) for part in (half, tree.sub(exponent, half))
    )
    return tree.mul(tree.mul(power, first), second)


_LOG = (0.6666666865348816, 0.40000125765800476, 0.2855055630207062, 0.23337242007255554)
_LN2_LONG = (0.693138122558593750, 9.0580006144591607e-06)
"""ln 2 likewise, the first with 17 bits."""

_ROOT_HALF = 0x3F3504F3
"""The bits of the root of 1/2."""


def _log(x: Expr) -> Expr:
    subnormal = tree.lt(x, _f32(2.0**-126))
    normal = tree.select(subnormal, tree.mul(x, _f32(2.0**23)), x)
    bits = tree.add(tree.to_bits(normal), _u32(0x3F800000 - _ROOT_HALF))
    # An integer below 2^23 in the last bits of 2^23 is added to it.
    exponent = tree.from_bits(tree.bit_or(tree.shr(bits, _u32(23)), _u32(0x4B000000)))
    bias = tree.select(subnormal, _f32(2.0**23 + 127 + 23), _f32(2.0**23 + 127))
    k = tree.sub(exponent, bias)
    mantissa = tree.from_bits(tree.add(tree.bit_and(bits, _u32(0x7FFFFF)), _u32(_ROOT_HALF)))
    f = tree.sub(mantissa, _f32(1.0))
    s = tree.div(f, tree.add(_f32(2.0), f))
    z = tree.mul(s, s)
    half_square = tree.mul(tree.mul(_f32(0.5), f), f)
    rest = tree.mul(s, tree.add(half_square, tree.mul(z, _polynomial(z, _LOG))))
    low = tree.sub(tree.add(rest, tree.mul(k, _f32(_LN2_LONG[1]))), half_square)
    logarithm = _sum(low, f, tree.mul(k, _f32(_LN2_LONG[0])))
    positive = tree.select(tree.lt(x, _f32(math.inf)), logarithm, x)
    total = tree.select(tree.lt(x, _f32(0.0)), _f32(math.nan), positive)
    return tree.select(tree.eq(x, _f32(0.0)), _f32(-math.inf), total)


_TANH = (
    *(-0.3333333432674408, 0.13333313167095184, -0.053961753845214844),
    *(0.02178988792002201, -0.008415029384195805, 0.0023762662895023823),
)


def _tanh(x: Expr) -> Expr:
    a = tree.absolute(x)
    z = tree.mul(a, a)
    near = tree.add(a, tree.mul(tree.mul(a, z), _polynomial(z, _TANH)))
    power = _exp(tree.mul(_f32(2.0), _clipped(a, 0.0, 9.1)))
    far = tree.sub(_f32(1.0), tree.div(_f32(2.0), tree.add(power, _f32(1.0))))
    return _with_sign(tree.select(tree.lt(a, _f32(0.6)), near, far), x)


_ERF_NEAR = (
    *(0.12837916612625122, -0.37612631916999817, 0.11283672600984573, -0.026858104392886162),
    *(0.00519779697060585, -0.0008105965098366141, 8.215423440560699e-05),
)
_ERF_FAR = (
    *(1.12884521484375, 0.6343548893928528, 0.10755185782909393, -0.02490239217877388),
    *(0.004197282250970602, -0.00047121854731813073, 3.0551509553333744e-05, -8.247297387242725e-07),
)


def _erf(x: Expr) -> Expr:
    a = tree.absolute(x)
    near = tree.add(a, tree.mul(a, _polynomial(tree.mul(a, a), _ERF_NEAR)))
    clipped = _clipped(a, 0.0, 4.0)
    far = tree.sub(_f32(1.0), _exp(tree.neg(tree.mul(clipped, _polynomial(clipped, _ERF_FAR)))))
    return _with_sign(tree.select(tree.lt(a, _f32(0.92)), near, far), x)


_TWO_OVER_PI = tuple(
    float.fromhex(text)
    for text in (
        *("0x1.45f306cp-1", "0x1.c9c882ap-29", "0x1.4fe13a8p-59", "0x1.f47d4dp-86"),
        *("0x1.bb81b6cp-113", "0x1.4acc9ep-143", "0x1.0e4107cp-170"),
    )
)
"""2/pi in parts of 28 bits: products with an f32 are exact in f64."""

_SIN = (-0.1666666716337204, 0.008333331905305386, -0.00019840082677546889, 2.724938894971274e-06)
_COS = (0.0416666679084301, -0.00138888880610466, 2.480059629306197e-05, -2.7300501415084e-07)


def _f64(value: float) -> Expr:
    return tree.literal(value, F64)


_SHIFT_F64 = 1.5 * 2.0**52


def _nearest(y: Expr) -> Expr:
    """Return the integer nearest to an f64 below 2^51."""
    return tree.sub(tree.add(y, _f64(_SHIFT_F64)), _f64(_SHIFT_F64))


def _modulo_four(y: Expr, bound: float = 14.0) -> Expr:
    """Return what is left of an f64 up to ``bound`` once the nearest multiple of 4 is taken away, which is exact."""
    fours = tree.mul(y, _f64(0.25))
    nearest = _nearest(fours)
    if bound >= 2.0**53:
        # From there on the quotients that occur here are integers.
        nearest = tree.select(tree.lt(tree.absolute(fours), _f64(2.0**51)), nearest, fours)
    return tree.sub(y, tree.mul(nearest, _f64(4.0)))


def _quarters(x: Expr) -> tuple[Expr, Expr]:
    """Return quarter turns of an angle modulo 4, from -2 to 2 (f64), and the angle left, from -pi/4 to pi/4 (f32)."""
    wide = tree.cast(x, F64)
    first, *rest = (_modulo_four(tree.mul(wide, _f64(part)), part * 2.0**128) for part in _TWO_OVER_PI)
    high, low = first, _f64(0.0)
    for part in rest:
        # Knuth's exact error of a sum.
        total = tree.add(high, part)
        taken = tree.sub(total, high)
        error = tree.add(tree.sub(high, tree.sub(total, taken)), tree.sub(part, taken))
        high, low = total, tree.add(low, error)
    turns = _nearest(high)
    left = tree.mul(tree.add(tree.sub(high, turns), low), _f64(math.pi / 2))
    return _modulo_four(turns), tree.cast(left, F32)


def _sin_and_cos(r: Expr) -> tuple[Expr, Expr]:
    """Return the functions of an angle from -pi/4 to pi/4."""
    z = tree.mul(r, r)
    half = tree.mul(_f32(0.5), z)
    rough = tree.sub(_f32(1.0), half)
    lost = tree.sub(tree.sub(_f32(1.0), rough), half)
    cos = tree.add(rough, tree.add(lost, tree.mul(tree.mul(z, z), _polynomial(z, _COS))))
    return tree.add(r, tree.mul(tree.mul(r, z), _polynomial(z, _SIN))), cos


def _sin(x: Expr) -> Expr:
    turns, left = _quarters(x)
    sin, cos = _sin_and_cos(left)
    value = tree.select(tree.eq(tree.absolute(turns), _f64(1.0)), cos, sin)
    negative = tree.logical_or(tree.lt(turns, _f64(-0.5)), tree.gt(turns, _f64(1.5)))
    signed = tree.select(negative, tree.neg(value), value)
    return tree.select(tree.eq(x, _f32(0.0)), x, signed)


def _cos(x: Expr) -> Expr:
    turns, left = _quarters(x)
    sin, cos = _sin_and_cos(left)
    value = tree.select(tree.eq(tree.absolute(turns), _f64(1.0)), sin, cos)
    negative = tree.logical_or(tree.lt(turns, _f64(-1.5)), tree.gt(turns, _f64(0.5)))
    return tree.select(negative, tree.neg(value), value)


_FORMULAS: dict[str, Callable[[Expr], Expr]] = {
    "exp": _exp,
    "log": _log,
    "tanh": _tanh,
    "erf": _erf,
    "sin": _sin,
    "cos": _cos,
}

ELEMENTARY = frozenset(_FORMULAS)
"""Functions of `openinfer.expr.tree` that have a formula on f32."""


@functools.cache
def formula(function: str) -> Expr:
    """Return one of the functions, `ELEMENTARY`, of ``Input(0)``, an f32."""
    return _FORMULAS[function](Input(0, F32))


def spelled_out(expr: Expr) -> Expr:
    """Return an expression with its elementary functions of f32 replaced by their formulas."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if not isinstance(node, Apply):
            done[id(node)] = node
        elif ready:
            args = tuple(done[id(arg)] for arg in node.args)
            if node.function in ELEMENTARY and node.dtype is F32:
                done[id(node)] = tree.substitute(formula(node.function), {0: args[0]})
            else:
                done[id(node)] = Apply(node.function, args, node.dtype)
        else:
            stack.append((node, True))
            stack += [(arg, False) for arg in node.args]
    return done[id(expr)]
