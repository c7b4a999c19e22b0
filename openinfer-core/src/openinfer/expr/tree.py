"""Typed scalar expressions, and functions that build them.

The meaning is **total**: every input of every type has one defined result, which each renderer must spell out.

======================  ============================================================================================
function                meaning
======================  ============================================================================================
add, sub, mul, neg,     floats: IEEE; integers: exact result modulo 2^width (``absolute`` and ``neg`` of the minimum
absolute                are the minimum)
div                     floats: IEEE division; integers: truncation toward zero, x / 0 = 0, minimum / -1 = minimum
rem                     floats: C ``fmod``; integers: sign of the dividend, x % 0 = 0, minimum % -1 = 0
minimum, maximum        ``maximum(a, b) = a is NaN or b > a ? b : a`` (``minimum`` with ``<``): a NaN operand loses
eq, ne, lt, le, gt, ge  IEEE comparison; on bool only eq and ne
logical_*               and, or, xor, not on bool
bit_*                   and, or, xor, not on integers, two's complement within the width
shl, shr                count is an integer of the same type; a count below 0 acts as 0; at or past the width shl and
                        unsigned shr give 0, signed shr gives 0 or -1
select(c, a, b)         a where c is true, else b; both are evaluated
cast                    float to integer: toward zero, NaN is 0, out of range is the nearest limit; integer to integer:
                        modulo 2^width; integer to float and float to float: nearest, ties to even, overflow to
                        infinity (`cast` builds what rounds once to a low float; `Apply` rounds to f32 first); bool to
                        number: 0 or 1; number to bool: != 0 (NaN is true); a bitset is the number u8
exp, log, sqrt, sin,    IEEE; log 0 = -inf, log and sqrt of negatives are NaN. sqrt is correctly rounded, the others
cos, tan, tanh, erf,    are as good as the library at hand; on f32, C and loop programs have formulas of some
expm1, log1p, power     (`openinfer.expr.elementary`)
power(a, b)             of unsigned integers: exact result modulo 2^width
fma(a, b, c)            a * b + c of floats, rounded once (the operator of this name rounds twice)
dot4(a, b, c)           c + the sum of four products modulo 2^32: the bytes of the i32 a as u8, those of the i32 b as i8
sdot4(a, b, c)          the same with the bytes of both as i8
dot2(a, b, c)           c + the sum of two products modulo 2^32: the halves of the i32 a and b as i16
widen(x, n)             the i32 whose halves are two bytes of the i32 x as i8: 0 and 2 where n is even, else 1 and 3
scale(m, x)             the product of the f32 m and the i32 x, as f32, rounded to f32 and then to even, where that lies
                        from -512 to 511, else the nearer of these; m is positive and finite
requantise(m, x, n, z)  the product of the i32 m, 2^-(32 + n) and the i32 x, as f32, rounded to f32 and then to even,
                        plus the i32 z, and what clip8 makes of it; m is positive and exact as f32, n from 0 to 31,
                        z from -256 to 256
clip8(x)                the i32 x where it lies from -128 to 127, else the nearer of these
word(a, b, c, d)        the i32 that four i8 or u8 are the bytes of, ``a`` the lowest
floor, ceil, trunc,     IEEE, the sign of zero is kept; ``round_even`` rounds halves to even
round_even
is_nan, is_inf          on floats
to_bits, from_bits      the bits of an f32 as a u32, and back
sign_bit                whether the sign bit of a float is set (also of zeros and NaNs)
======================  ============================================================================================

Compute types are f32, f64, integers of 8 to 64 bits and bool. A low float or packed type appears only in an `Input`
that is cast at once, and in the last cast of a tree: that cast is the one rounding that the operator makes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.dtypes import BF16, BOOL, F32, F64, I8, I16, I32, I64, U8, U32, U64, DType, Kind
from openinfer.errors import OpenInferError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from openinfer.scalars import Scalar


class ExprError(OpenInferError):
    """Expressions of types that do not go together were combined: a mistake in an operator's definition."""

    default_code = "expression"


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """The element of input number ``index``."""

    index: int
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant; a float literal is exact in its type."""

    value: Scalar
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """An integer that is known at run time only, and the same for every element; stages read it as a position.

    Attributes:
        value: the `openinfer.affine.Index` of the size.
    """

    value: Hashable
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """A function of subexpressions. Trees may share subtrees; identity is equality."""

    function: str
    args: tuple[Expr, ...]
    dtype: DType


Expr: TypeAlias = Input | Literal | Size | Apply


def literal(value: Scalar, dtype: DType) -> Literal:
    """Return a constant of ``dtype``; floats are rounded to it, integers must fit.

    Raises:
        ExprError: the value does not fit.
    """
    from openinfer.scalars import round_to

    if dtype.is_float:
        return Literal(round_to(dtype, float(value)), dtype)
    if dtype.kind is Kind.BOOL:
        return Literal(bool(value), dtype)
    number = int(value)
    if number != value or not (dtype.minimum or 0) <= number <= (dtype.maximum or 0):
        raise ExprError(f"{value!r} is not an {dtype} constant")
    return Literal(number, dtype)


def _same(function: str, *args: Expr) -> DType:
    first = args[0].dtype
    if any(arg.dtype is not first for arg in args):
        dtypes = ", ".join(str(arg.dtype) for arg in args)
        raise ExprError(f"{function} needs operands of one type, found {dtypes}")
    return first


def _need(function: str, ok: bool, dtype: DType) -> None:
    if not ok:
        raise ExprError(f"{function} is not defined on {dtype}")


def _is_number(dtype: DType) -> bool:
    return dtype.is_float or dtype.is_integer


def _applied(function: str, is_defined: Callable[[DType], bool], *args: Expr, result: DType | None = None) -> Apply:
    dtype = _same(function, *args)
    _need(function, is_defined(dtype), dtype)
    return Apply(function, args, result or dtype)


def _numeric(function: str, *args: Expr) -> Apply:
    return _applied(function, _is_number, *args)


def _floating(function: str, *args: Expr) -> Apply:
    return _applied(function, lambda dtype: dtype.is_float, *args)


def _integral(function: str, *args: Expr) -> Apply:
    return _applied(function, lambda dtype: dtype.is_integer, *args)


def _on(dtypes: Sequence[DType], function: str, *args: Expr, result: DType | None = None) -> Apply:
    return _applied(function, dtypes.__contains__, *args, result=result)


def _logical(function: str, *args: Expr) -> Apply:
    return _on((BOOL,), function, *args)


def _comparison(function: str, a: Expr, b: Expr) -> Apply:
    is_equation = function in ("eq", "ne")
    return _applied(function, lambda dtype: _is_number(dtype) or (dtype is BOOL and is_equation), a, b, result=BOOL)


def _test(function: str, x: Expr) -> Apply:
    return _applied(function, lambda dtype: dtype.is_float, x, result=BOOL)


def add(a: Expr, b: Expr) -> Apply:
    return _numeric("add", a, b)


def sub(a: Expr, b: Expr) -> Apply:
    return _numeric("sub", a, b)


def mul(a: Expr, b: Expr) -> Apply:
    return _numeric("mul", a, b)


def div(a: Expr, b: Expr) -> Apply:
    return _numeric("div", a, b)


def rem(a: Expr, b: Expr) -> Apply:
    return _numeric("rem", a, b)


def neg(x: Expr) -> Apply:
    return _numeric("neg", x)


def absolute(x: Expr) -> Apply:
    return _numeric("absolute", x)


def minimum(a: Expr, b: Expr) -> Apply:
    return _numeric("minimum", a, b)


def maximum(a: Expr, b: Expr) -> Apply:
    return _numeric("maximum", a, b)


def eq(a: Expr, b: Expr) -> Apply:
    return _comparison("eq", a, b)


def ne(a: Expr, b: Expr) -> Apply:
    return _comparison("ne", a, b)


def lt(a: Expr, b: Expr) -> Apply:
    return _comparison("lt", a, b)


def le(a: Expr, b: Expr) -> Apply:
    return _comparison("le", a, b)


def gt(a: Expr, b: Expr) -> Apply:
    return _comparison("gt", a, b)


def ge(a: Expr, b: Expr) -> Apply:
    return _comparison("ge", a, b)


def logical_and(a: Expr, b: Expr) -> Apply:
    return _logical("logical_and", a, b)


def logical_or(a: Expr, b: Expr) -> Apply:
    return _logical("logical_or", a, b)


def logical_xor(a: Expr, b: Expr) -> Apply:
    return _logical("logical_xor", a, b)


def logical_not(x: Expr) -> Apply:
    return _logical("logical_not", x)


def bit_and(a: Expr, b: Expr) -> Apply:
    return _integral("bit_and", a, b)


def bit_or(a: Expr, b: Expr) -> Apply:
    return _integral("bit_or", a, b)


def bit_xor(a: Expr, b: Expr) -> Apply:
    return _integral("bit_xor", a, b)


def bit_not(x: Expr) -> Apply:
    return _integral("bit_not", x)


def shl(x: Expr, count: Expr) -> Apply:
    return _integral("shl", x, count)


def shr(x: Expr, count: Expr) -> Apply:
    return _integral("shr", x, count)


def select(condition: Expr, a: Expr, b: Expr) -> Apply:
    _need("select", condition.dtype is BOOL, condition.dtype)
    return Apply("select", (condition, a, b), _same("select", a, b))


def cast(x: Expr, dtype: DType) -> Expr:
    """Return ``x`` as ``dtype``; the same expression when it has that type already.

    Of ternary types t2 takes what is nearest of -1, 0 and 1, and t1 the sign, where 0 (and NaN) is positive.

    A low float is rounded once, also where ``x`` is a wider number that was cast to f32 before
    (``specification: dtypes.rounding.3``).
    """
    if x.dtype is dtype:
        return x
    if dtype.kind is Kind.TERNARY:
        x = _ternary(x, dtype)
    elif dtype.is_low_float:
        x = _before_rounding(x, dtype)
    return Apply("cast", (x,), dtype)


_COLLAPSED = ((24, 11), (34, 26), (49, 41))
"""Powers of two from which on so many low bits of an integer are replaced by the highest of them."""


def _before_rounding(x: Expr, dtype: DType) -> Expr:
    """Return a number that is the same low float as ``x``, and that passes through f32 without being rounded to a tie.

    It is rounded to odd: what is cut off leaves a 1 in the last bit that stays. That bit is at least two below those
    of the low float, so that nothing becomes a tie and no tie is lost (Boldo and Melquiond, "Emulation of a FMA and
    correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    wide = x.args[0] if isinstance(x, Apply) and x.function == "cast" and x.dtype is F32 else x
    if wide.dtype is F64:
        return _odd_f32(wide)
    # In f16 and f8 what f32 rounds is infinite.
    if dtype is BF16 and wide.dtype in (I32, U32, I64, U64):
        return _collapsed(wide)
    return x


def _odd_f32(x: Expr) -> Expr:
    near = cast(x, F32)
    back = cast(near, F64)
    is_past, is_rounded = gt(absolute(back), absolute(x)), ne(back, x)
    below = sub(to_bits(near), cast(is_past, U32))
    return from_bits(bit_or(below, cast(is_rounded, U32)))


def _collapsed(x: Expr) -> Expr:
    """Return an integer that f32 holds exactly: of large ones all bits below some are one bit."""
    mask = literal(0, x.dtype)
    for power, count in _COLLAPSED:
        if power < x.dtype.bits:
            limit = literal(1 << power, x.dtype)
            is_large = ge(x, limit)
            if x.dtype.kind is Kind.SIGNED:
                is_large = logical_or(is_large, le(x, literal(-1 << power, x.dtype)))
            mask = select(is_large, literal((1 << count) - 1, x.dtype), mask)
    low = bit_and(x, mask)
    highest = sub(mask, shr(mask, literal(1, x.dtype)))
    return bit_or(sub(x, low), select(ne(low, literal(0, x.dtype)), highest, low))


def _ternary(x: Expr, dtype: DType) -> Expr:
    """Return ``x`` as an i8 that the ternary type ``dtype`` holds."""
    if x.dtype.kind in (Kind.BOOL, Kind.TERNARY, Kind.BITSET) or x.dtype.is_float or x.dtype.is_packed:
        x = cast(x, I16 if x.dtype.kind is Kind.BITSET else I8)
    zero, one = literal(0, x.dtype), literal(1, x.dtype)
    if dtype.bits == 1:
        return select(lt(x, zero), literal(-1, I8), literal(1, I8))
    return cast(minimum(x if x.dtype.minimum == 0 else maximum(x, literal(-1, x.dtype)), one), I8)


def exp(x: Expr) -> Apply:
    return _floating("exp", x)


def expm1(x: Expr) -> Apply:
    return _floating("expm1", x)


def log(x: Expr) -> Apply:
    return _floating("log", x)


def log1p(x: Expr) -> Apply:
    return _floating("log1p", x)


def sqrt(x: Expr) -> Apply:
    return _floating("sqrt", x)


def sin(x: Expr) -> Apply:
    return _floating("sin", x)


def cos(x: Expr) -> Apply:
    return _floating("cos", x)


def tan(x: Expr) -> Apply:
    return _floating("tan", x)


def tanh(x: Expr) -> Apply:
    return _floating("tanh", x)


def erf(x: Expr) -> Apply:
    return _floating("erf", x)


def power(a: Expr, b: Expr) -> Apply:
    return _applied("power", lambda dtype: dtype.is_float or dtype.kind is Kind.UNSIGNED, a, b)


def fma(a: Expr, b: Expr, c: Expr) -> Apply:
    return _floating("fma", a, b, c)


def dot4(a: Expr, b: Expr, c: Expr) -> Apply:
    return _on((I32,), "dot4", a, b, c)


def sdot4(a: Expr, b: Expr, c: Expr) -> Apply:
    return _on((I32,), "sdot4", a, b, c)


def dot2(a: Expr, b: Expr, c: Expr) -> Apply:
    return _on((I32,), "dot2", a, b, c)


def widen(x: Expr, n: Expr) -> Apply:
    return _on((I32,), "widen", x, n)


def scale(m: Expr, x: Expr) -> Apply:
    _need("scale", x.dtype is I32, x.dtype)
    _need("scale", m.dtype is F32, m.dtype)
    return Apply("scale", (m, x), I32)


def requantise(m: Expr, x: Expr, n: Expr, z: Expr) -> Apply:
    _need("requantise", _same("requantise", m, x, n, z) is I32, m.dtype)
    return Apply("requantise", (m, x, n, z), I32)


def clip8(x: Expr) -> Apply:
    return _on((I32,), "clip8", x)


def word(a: Expr, b: Expr, c: Expr, d: Expr) -> Apply:
    return _on((I8, U8), "word", a, b, c, d, result=I32)


def floor(x: Expr) -> Apply:
    return _floating("floor", x)


def ceil(x: Expr) -> Apply:
    return _floating("ceil", x)


def trunc(x: Expr) -> Apply:
    return _floating("trunc", x)


def round_even(x: Expr) -> Apply:
    return _floating("round_even", x)


def is_nan(x: Expr) -> Apply:
    return _test("is_nan", x)


def is_inf(x: Expr) -> Apply:
    return _test("is_inf", x)


def sign_bit(x: Expr) -> Apply:
    return _test("sign_bit", x)


def to_bits(x: Expr) -> Apply:
    return _on((F32,), "to_bits", x, result=U32)


def from_bits(x: Expr) -> Apply:
    return _on((U32,), "from_bits", x, result=F32)


def substitute(expr: Expr, replacements: Mapping[Any, Expr]) -> Expr:
    """Return ``expr`` with inputs, by number, and sizes, by value, replaced by expressions.

    Shared subtrees stay shared; the work is linear in the number of distinct nodes.

    Raises:
        ExprError: a replacement has another type than the input it stands for.
    """
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if not isinstance(node, Apply):
            done[id(node)] = _replaced(node, replacements)
        elif ready:
            done[id(node)] = Apply(node.function, tuple(done[id(arg)] for arg in node.args), node.dtype)
        else:
            stack.append((node, True))
            stack += [(arg, False) for arg in node.args]
    return done[id(expr)]


def _replaced(node: Input | Literal | Size, replacements: Mapping[Any, Expr]) -> Expr:
    key = None if isinstance(node, Literal) else node.index if isinstance(node, Input) else node.value
    new = None if key is None else replacements.get(key)
    if new is None:
        return node
    if new.dtype is not node.dtype:
        raise ExprError(f"input {key} is {node.dtype}, its replacement is {new.dtype}")
    return new
