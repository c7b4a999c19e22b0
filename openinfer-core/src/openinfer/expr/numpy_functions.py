"""Functions of expressions on NumPy arrays, with the total meaning of `openinfer.expr.tree`.

Each one is a `Routine` that writes to an array that exists. The caller switches NumPy's warnings off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.dtypes import BOOL, F32, F64, SINT, UINT, DType, Kind
from openinfer.expr.numpy_erf import erf
from openinfer.expr.numpy_fma import fma_f32, fma_f64
from openinfer.expr.tree import ExprError
from openinfer.scalars import round_to

if TYPE_CHECKING:
    from openinfer.bound_calls import BoundCall
    from openinfer.scalars import Scalar

Array: TypeAlias = npt.NDArray[Any]
Run: TypeAlias = Callable[..., None]

_COMPUTED = frozenset(d.name for d in (F32, F64, *SINT, *UINT, BOOL))


@dataclass(frozen=True, slots=True)
class Routine:
    """How an instruction is carried out.

    Attributes:
        run: called with the array to write, scratch arrays of its shape, and the operands.
        scratch: types of the scratch arrays.
        atomic: whether the array to write may be an operand: it is written by one ufunc or copy, the last.
        bind: called with the same arrays; returns the call that ``run`` makes, without what only its arguments decide.
    """

    run: Run
    scratch: tuple[np.dtype[Any], ...] = ()
    atomic: bool = False
    bind: Callable[..., BoundCall] | None = None

    def bound(self, out: Array, scratch: tuple[Array, ...], *operands: Array) -> BoundCall:
        """Return a call that carries the instruction out on these arrays."""
        if self.bind is None:
            return partial(self.run, out, scratch, *operands)
        return self.bind(out, scratch, *operands)


def routine(function: str, operands: Sequence[DType], result: DType) -> Routine:
    """Return the routine of a function of `openinfer.expr.tree` on operands of these types.

    Raises:
        ExprError: a type is not one that expressions compute in (only casts take low floats and packed types).
    """
    if function == "cast":
        return _cast(operands[0], result)
    foreign = next((d for d in (*operands, result) if d.name not in _COMPUTED), None)
    if foreign is not None:
        raise ExprError(f"{function} cannot be computed in {foreign}: cast to a compute type first")
    operand = operands[-1]
    special = (_FLOAT_ROUTINES if operand.is_float else _INTEGER_ROUTINES).get(function)
    if special is not None:
        return special(operand)
    ufunc = _UFUNCS.get(function)
    if ufunc is None:
        raise ExprError(f"the NumPy renderer has no function {function!r}")
    return _single(ufunc)


def literal_array(value: Scalar, dtype: DType) -> Array:
    """Return a constant as an array of rank 0."""
    return np.array(value, dtype=storage_dtype(dtype))


def _single(ufunc: Callable[..., Any]) -> Routine:
    def run(out: Array, _scratch: Sequence[Array], *operands: Array) -> None:
        ufunc(*operands, out=out)

    def bind(out: Array, _scratch: Sequence[Array], *operands: Array) -> BoundCall:
        # A positional output takes a third less time for few elements; NumPy deprecates it for these two.
        if ufunc in (np.minimum, np.maximum):
            return partial(ufunc, *operands, out=out)
        return partial(ufunc, *operands, out)

    return Routine(run, atomic=True, bind=bind)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rem": np.fmod,
    "neg": np.negative,
    "absolute": np.absolute,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.invert,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "power": np.power,  # of integers
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round_even": np.rint,
    "is_nan": np.isnan,
    "is_inf": np.isinf,
    "sign_bit": np.signbit,
}

_BOOL = np.dtype(np.bool_)
_DOUBLE = np.dtype(np.float64)


# Bit by bit, for a copy where a mask is set costs a mispredicted branch at every change of the mask: ten times the time
# on an array of random signs.
def _bind_select(out: Array, scratch: Sequence[Array], condition: Array, a: Array, b: Array) -> BoundCall:
    mask, mixed = scratch
    first, second = a.view(mask.dtype), b.view(mask.dtype)
    return in_order(
        [
            partial(np.negative, condition.view(np.int8), out=mask, dtype=mask.dtype),
            partial(np.bitwise_xor, first, second, out=mixed),
            partial(np.bitwise_and, mixed, mask, out=mixed),
            partial(np.bitwise_xor, mixed, second, out=out.view(mask.dtype)),
        ]
    )


def _bind_nothing_or(out: Array, scratch: Sequence[Array], condition: Array, _zero: Array, b: Array) -> BoundCall:
    (mask,) = scratch
    # true, false: 0, -1
    return in_order(
        [
            partial(np.subtract, condition.view(np.int8), np.int8(1), out=mask, dtype=mask.dtype),
            partial(np.bitwise_and, b.view(mask.dtype), mask, out=out.view(mask.dtype)),
        ]
    )


def _of_bits(bind: Callable[..., BoundCall], operand: DType, scratch: int) -> Routine:
    """Return a routine whose scratch arrays hold signed integers as wide as an element."""

    def run(out: Array, scratch: Sequence[Array], *operands: Array) -> None:
        bind(out, scratch, *operands)()

    bits = np.dtype(f"i{storage_dtype(operand).itemsize}")
    return Routine(run, (bits,) * scratch, atomic=True, bind=bind)


def nothing_or(dtype: DType) -> Routine:
    """Return the routine of a ``select`` whose second operand is a literal with all bits zero."""
    return _of_bits(_bind_nothing_or, dtype, 1)


def _select(operand: DType) -> Routine:
    return _of_bits(_bind_select, operand, 2)


def _extremum(better: Callable[..., Any]) -> Callable[[DType], Routine]:
    """Return the routine maker of ``maximum`` (``better`` is ``>``) or ``minimum`` on floats."""

    def run(out: Array, scratch: Sequence[Array], a: Array, b: Array) -> None:
        replaced, unordered, mask, mixed = scratch
        better(b, a, out=replaced)
        np.isnan(a, out=unordered)
        np.logical_or(replaced, unordered, out=replaced)
        np.negative(replaced.view(np.int8), out=mask, dtype=mask.dtype)
        np.bitwise_xor(a.view(mask.dtype), b.view(mask.dtype), out=mixed)
        np.bitwise_and(mixed, mask, out=mixed)
        np.bitwise_xor(mixed, a.view(mask.dtype), out=out.view(mask.dtype))

    def make(operand: DType) -> Routine:
        bits = np.dtype(f"i{storage_dtype(operand).itemsize}")
        return Routine(run, (_BOOL, _BOOL, bits, bits))

    return make


def _divide_integers(operand: DType) -> Routine:
    """Truncating division: what floor division gives once the truncated remainder is taken away."""
    if operand.kind is Kind.UNSIGNED:
        return _single(np.floor_divide)

    def run(out: Array, scratch: Sequence[Array], a: Array, b: Array) -> None:
        np.fmod(a, b, out=scratch[0])
        np.subtract(a, scratch[0], out=scratch[0])
        np.floor_divide(scratch[0], b, out=out)

    return Routine(run, (storage_dtype(operand),))


def _shift(ufunc: Callable[..., Any]) -> Callable[[DType], Routine]:
    """Return the routine maker of a shift; NumPy takes counts past the width as `tree` does, but not negative ones."""

    def make(operand: DType) -> Routine:
        if operand.kind is Kind.UNSIGNED:
            return _single(ufunc)

        def run(out: Array, scratch: Sequence[Array], x: Array, count: Array) -> None:
            np.maximum(count, 0, out=scratch[0])
            ufunc(x, scratch[0], out=out)

        return Routine(run, (storage_dtype(operand),))

    return make


def _dot4(out: Array, scratch: Sequence[Array], a: Array, b: Array, c: Array, signed: bool = False) -> None:
    total, left, right = scratch
    np.copyto(total, c)
    for low in range(0, 32, 8):
        np.left_shift(a, 24 - low, out=left)
        np.right_shift(left, 24, out=left)
        if not signed:
            np.bitwise_and(left, 255, out=left)
        np.left_shift(b, 24 - low, out=right)
        np.right_shift(right, 24, out=right)
        np.multiply(left, right, out=left)
        np.add(total, left, out=total)
    np.copyto(out, total)


def _dot2(out: Array, scratch: Sequence[Array], a: Array, b: Array, c: Array) -> None:
    total, left, right = scratch
    np.copyto(total, c)
    for low in (0, 16):
        for half, of in ((left, a), (right, b)):
            np.left_shift(of, 16 - low, out=half)
            np.right_shift(half, 16, out=half)
        np.multiply(left, right, out=left)
        np.add(total, left, out=total)
    np.copyto(out, total)


def _widen(out: Array, scratch: Sequence[Array], x: Array, n: Array) -> None:
    total, byte, count = scratch
    np.bitwise_and(n, 1, out=count)
    np.left_shift(count, 3, out=count)
    np.right_shift(x, count, out=total)
    np.left_shift(total, 8, out=byte)
    np.right_shift(byte, 24, out=byte)
    np.left_shift(byte, 16, out=byte)
    np.left_shift(total, 24, out=total)
    np.right_shift(total, 24, out=total)
    np.bitwise_and(total, 0xFFFF, out=total)
    np.bitwise_or(total, byte, out=out)


def _scale(out: Array, scratch: Sequence[Array], m: Array, x: Array) -> None:
    (product,) = scratch
    np.copyto(product, x, casting="unsafe")
    with np.errstate(over="ignore"):
        np.multiply(product, m, out=product)
    np.rint(product, out=product)
    np.clip(product, -512, 511, out=product)
    np.copyto(out, product, casting="unsafe")


def _requantise(out: Array, scratch: Sequence[Array], m: Array, x: Array, n: Array, z: Array) -> None:
    factor, product = scratch
    np.copyto(factor, m, casting="unsafe")
    np.ldexp(factor, -32 - n, out=factor)
    np.copyto(product, x, casting="unsafe")
    np.multiply(product, factor, out=product)
    np.rint(product, out=product)
    np.clip(product, -512, 511, out=product)
    np.add(product, z, out=product, casting="unsafe")
    np.clip(product, -128, 127, out=product)
    np.copyto(out, product, casting="unsafe")


def _clip8(out: Array, _scratch: Sequence[Array], x: Array) -> None:
    np.clip(x, -128, 127, out=out)


def _word(out: Array, scratch: Sequence[Array], *parts: Array) -> None:
    total, byte = scratch
    total.fill(0)
    for lane, part in enumerate(parts):
        np.copyto(byte, part, casting="unsafe")
        np.bitwise_and(byte, 255, out=byte)
        np.left_shift(byte, 8 * lane, out=byte)
        np.bitwise_or(total, byte, out=total)
    np.copyto(out, total)


def _power(out: Array, scratch: Sequence[Array], a: Array, b: Array) -> None:
    """Write powers; NumPy takes the root for a broadcast half, which differs at -inf and -0."""
    is_half, is_special = scratch
    np.power(a, b, out=out)
    np.equal(b, 0.5, out=is_half)
    if not is_half.any():
        return
    for special in (-math.inf, 0.0):
        np.equal(a, special, out=is_special)
        np.logical_and(is_half, is_special, out=is_special)
        np.absolute(a, out=out, where=is_special)


def _reinterpret(operand: DType) -> Routine:
    """Return the routine that copies the bits of an element to one of another type."""
    bits = storage_dtype(operand)

    def run(out: Array, _scratch: Sequence[Array], x: Array) -> None:
        np.copyto(out.view(bits), x)

    return Routine(run, atomic=True)


_FLOAT_ROUTINES: dict[str, Callable[[DType], Routine]] = {
    "select": _select,
    "minimum": _extremum(np.less),
    "maximum": _extremum(np.greater),
    "power": lambda _operand: Routine(_power, (_BOOL, _BOOL)),
    "to_bits": _reinterpret,
    "erf": lambda _operand: Routine(erf, (_DOUBLE,) * 5),
    "fma": lambda operand: Routine(fma_f32, (_DOUBLE,) * 4) if operand is F32 else Routine(fma_f64),
}

_INTEGER_ROUTINES: dict[str, Callable[[DType], Routine]] = {
    "select": _select,
    "div": _divide_integers,
    "dot4": lambda _operand: Routine(_dot4, (np.dtype(np.int32),) * 3),
    "sdot4": lambda _operand: Routine(partial(_dot4, signed=True), (np.dtype(np.int32),) * 3),
    "dot2": lambda _operand: Routine(_dot2, (np.dtype(np.int32),) * 3),
    "widen": lambda _operand: Routine(_widen, (np.dtype(np.int32),) * 3),
    "scale": lambda _operand: Routine(_scale, (np.dtype(np.float32),)),
    "requantise": lambda _operand: Routine(_requantise, (np.dtype(np.float32),) * 2),
    "clip8": lambda _operand: Routine(_clip8, atomic=True),
    "word": lambda _operand: Routine(_word, (np.dtype(np.int32),) * 2),
    "from_bits": _reinterpret,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
}


def _cast(source: DType, target: DType) -> Routine:
    if target is BOOL:
        return _to_bool(source)
    if target.is_float:
        return _to_float(source, target)
    if source.is_float:
        return _float_to_integer(source, target)
    return _to_integer(target)


def _copy(out: Array, _scratch: Sequence[Array], x: Array) -> None:
    np.copyto(out, x, casting="unsafe")


def _to_bool(source: DType) -> Routine:
    if source.is_low_float:
        # Comparisons of the low floats are NumPy loops of their own; through f32 there is only one meaning.
        def run(out: Array, scratch: Sequence[Array], x: Array) -> None:
            np.copyto(scratch[0], x, casting="unsafe")
            np.not_equal(scratch[0], 0, out=out)

        return Routine(run, (storage_dtype(F32),))
    zero = literal_array(0, source)

    def compare(out: Array, _scratch: Sequence[Array], x: Array) -> None:
        np.not_equal(x, zero, out=out)

    return Routine(compare, atomic=True)


def _to_float(source: DType, target: DType) -> Routine:
    if not target.is_low_float or source is F32 or source is BOOL:
        return Routine(_copy, atomic=True)

    def run(out: Array, scratch: Sequence[Array], x: Array) -> None:
        np.copyto(scratch[0], x, casting="unsafe")
        np.copyto(out, scratch[0], casting="unsafe")

    return Routine(run, (storage_dtype(F32),))


def _float_to_integer(source: DType, target: DType) -> Routine:
    computed = F32 if source.is_low_float else source
    low, high = target.minimum or 0, target.maximum or 0
    lowest, highest, past = float(low), _greatest_not_above(high, computed), float(high + 1)

    def run(out: Array, scratch: Sequence[Array], x: Array) -> None:
        value, chosen = scratch
        np.copyto(value, x, casting="unsafe")
        np.isnan(value, out=chosen)
        np.copyto(value, 0.0, where=chosen)
        np.greater_equal(value, past, out=chosen)
        np.clip(value, lowest, highest, out=value)
        np.copyto(out, value, casting="unsafe")
        np.copyto(out, high, where=chosen)

    return Routine(run, (storage_dtype(computed), _BOOL))


def _greatest_not_above(limit: int, dtype: DType) -> float:
    """Return the greatest float of the type that is not above an integer limit."""
    rounded = round_to(dtype, float(limit))
    if rounded <= limit:
        return rounded
    return float(np.nextafter(storage_dtype(dtype).type(rounded), storage_dtype(dtype).type(-math.inf)))


def _to_integer(target: DType) -> Routine:
    """Return the conversion of an integer or bool, modulo the width of the target."""
    if not target.is_packed or target.kind is Kind.TERNARY:
        return Routine(_copy, atomic=True)
    unused = 8 - target.bits

    def run(out: Array, _scratch: Sequence[Array], x: Array) -> None:
        np.copyto(out, x, casting="unsafe")
        np.left_shift(out, unused, out=out)
        np.right_shift(out, unused, out=out)

    return Routine(run)
