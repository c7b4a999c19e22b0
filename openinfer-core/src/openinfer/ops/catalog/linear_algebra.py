"""Products of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from openinfer.affine import Index
from openinfer.compute.elementwise import broadcast as broadcast_place
from openinfer.dims import unasked
from openinfer.dtypes import F32, I8, I32
from openinfer.ir.types import TensorType
from openinfer.ops.accumulate import ACC, accumulated, accumulator
from openinfer.ops.contractions import product_of, rounded, summed
from openinfer.ops.dtype_sets import BITSETS, BOOLS, FLOATS, NUMBERS, TERNARY
from openinfer.ops.elementwise import work_type
from openinfer.ops.mixed_floats import widest
from openinfer.ops.schema import (
    Compute,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import broadcast, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

_Dim = TypeVar("_Dim")

CATEGORY = "linear algebra"
_MULTIPLIED = NUMBERS | BOOLS | BITSETS


def _flag(name: str, doc: str) -> SettingSpec:
    return SettingSpec(name=name, type=SettingType.BOOL, default=False, doc=doc)


def _swapped(dims: tuple[_Dim, ...], swap: SettingValue) -> tuple[_Dim, ...]:
    return (*dims[:-2], dims[-1], dims[-2]) if swap and len(dims) > 1 else dims


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product: rank 1 is a row on the left and a column on the right, and disappears.

    Raises:
        OpTypeError: a scalar, or inner dims that differ, or leading dims that do not broadcast.
    """
    if not a or not b:
        raise OpTypeError(f"shapes {shown(a)} and {shown(b)} have no product: both need a dim")
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    inner = b[max(len(b) - 2, 0)]
    if a[-1] != inner:
        raise OpTypeError(f"shapes {shown(a)} and {shown(b)} have no product: inner dims are {a[-1]} and {inner}")
    return (*broadcast(a[:-2], b[:-2]), *rows, *columns)


@dataclass(frozen=True, slots=True)
class _Swap:
    """A setting that takes an input with its last two dims swapped, and the layouts without and with it."""

    setting: str
    plain: str
    swapped: str


_TRANS_A = _Swap("trans_a", "a as [..., M, K]", "a as [..., K, M]")
_TRANS_B = _Swap("trans_b", "b as [..., K, N]", "b as [..., N, K]")
_TRANS_W = _Swap("trans_w", "w as [K, N]", "w as [N, K]")


def _product_shape(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], settings: Settings, swaps: tuple[_Swap | None, _Swap | None]
) -> tuple[int, ...]:
    """Return the shape of a product of matrices that settings swap.

    Raises:
        OpTypeError: as `matmul_shape`; its hint names the setting that makes them fit, where there is one.
    """
    given = [bool(swap is not None and settings.get(swap.setting)) for swap in swaps]
    try:
        return matmul_shape(_swapped(shapes[0], given[0]), _swapped(shapes[1], given[1]))
    except OpTypeError as error:
        with unasked():
            hint = _swap_hint(shapes, given, swaps)
        raise OpTypeError(str(error), hint=hint) from error


def _swap_hint(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], given: Sequence[bool], swaps: tuple[_Swap | None, _Swap | None]
) -> str | None:
    """Return which setting, given or left out, makes two matrices fit; weights, on the right, are tried first."""
    for place in (1, 0):
        swap = swaps[place]
        if swap is None:
            continue
        left, right = (has is not (at == place) for at, has in enumerate(given))
        try:
            matmul_shape(_swapped(shapes[0], left), _swapped(shapes[1], right))
        except OpTypeError:
            continue
        if given[place]:
            return f"without `{swap.setting}` it takes {swap.plain}"
        return f"`{swap.setting}=true` takes {swap.swapped}"
    return None


def _matmul_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    a, b = needed(inputs), needed(inputs, 1)
    shape = _product_shape((a.shape, b.shape), settings, (_TRANS_A, _TRANS_B))
    return (TensorType(accumulated(a.dtype, settings), shape),)


def _matmul(k: Builder, call: OpCall) -> None:
    (a, b), (y,), at = k.given, k.outputs, k.axes(*k.outputs[0].shape)
    swapped = call.settings.get("trans_a"), call.settings.get("trans_b")
    where = factors_of(k, (a.shape, b.shape), at, swapped)
    product = product_of((a[where.left], b[where.right]), work_type(accumulator(a.dtype, call.settings)))
    y[at] = rounded(summed(k, product, (where.inner,)), call.settings, y.dtype)


@dataclass(frozen=True, slots=True)
class Factors:
    """What an element of a product of matrices sums up along ``inner``: the places of its factors."""

    inner: Var
    left: tuple[Index | Var, ...]
    right: tuple[Index | Var, ...]


def factors_of(
    k: Builder,
    shapes: tuple[tuple[Index, ...], tuple[Index, ...]],
    at: Sequence[Var],
    swapped: tuple[SettingValue, SettingValue] = (False, False),
) -> Factors:
    """Return the factors of ``y[..., i, j]``: ``a[..., i, r]`` and ``b[..., r, j]``, leading dims broadcast.

    A vector has no axis for the rows or columns that it does not have; a matrix may be ``swapped``.
    """
    left, right = shapes
    r = k.axis(_swapped(left, swapped[0])[-1])
    rows, columns = int(len(left) > 1), int(len(right) > 1)
    batch, i, j = at[: len(at) - rows - columns], at[len(at) - rows - columns :][:rows], at[len(at) - columns :]
    return Factors(
        r,
        (*broadcast_place(batch, left[:-2]), *_swapped((*i, r), swapped[0])),
        (*broadcast_place(batch, right[:-2]), *_swapped((r, *j), swapped[1])),
    )


def _linear_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, w, bias = needed(inputs), needed(inputs, 1), optional(inputs, 2)
    if not x.shape or len(w.shape) != 2:
        raise OpTypeError(f"takes x [..., K] and w [K, N], found {x} and {w}", of="linear")
    shape = _product_shape((x.shape, w.shape), settings, (None, _TRANS_W))
    if bias is not None and bias.shape != shape[-1:]:
        raise OpTypeError(f"bias is {bias}, expected one element per column of the result: {shown(shape[-1:])}")
    return (TensorType(x.dtype, shape),)


def _linear(k: Builder, call: OpCall) -> None:
    (x, w, *bias), (y,), at = k.given, k.outputs, k.axes(*k.outputs[0].shape)
    total = widest(operand.dtype for operand in k.given)
    where = factors_of(k, (x.shape, w.shape), at, (False, call.settings.get("trans_w")))
    value = summed(k, product_of((x[where.left], w[where.right]), total), (where.inner,))
    if bias:
        value = value + bias[0][at[-1]].cast(total)
    y[at] = value.cast(y.dtype)


MATMUL = OpSchema(
    name="matmul",
    summary="a b over the last two dims, leading dims broadcast; integers wrap, bool is OR of ANDs; ternaries need acc",
    category=CATEGORY,
    inputs=(InputSpec(name="a", doc="[..., M, K] or [K]"), InputSpec(name="b", doc="[..., K, N] or [K]")),
    dtypes=_MULTIPLIED | TERNARY,
    settings=(ACC, _flag("trans_a", "a is [..., K, M]"), _flag("trans_b", "b is [..., N, K]")),
    infer=_matmul_types,
    definition=Compute(_matmul),
    broadcast=True,
    in_place=True,
    onnx="MatMul",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5, 4))), dtypes=_MULTIPLIED),
        OpExample(inputs=(Operand(shape=(2, 1, 3, 5)), Operand(shape=(3, 5, 7))), dtypes=_MULTIPLIED),
        OpExample(
            inputs=(Operand(shape=(5, 3)), Operand(shape=(4, 5))),
            settings={"trans_a": True, "trans_b": True},
            dtypes=_MULTIPLIED,
        ),
        OpExample(inputs=(Operand(shape=(5,)), Operand(shape=(5,))), dtypes=_MULTIPLIED),
        OpExample(inputs=(Operand(shape=(3, 0)), Operand(shape=(0, 2))), dtypes=_MULTIPLIED),
        OpExample(inputs=(Operand(shape=(0, 3)), Operand(shape=(3, 2))), dtypes=_MULTIPLIED),
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5, 4))), settings={"acc": I32}, dtypes=TERNARY),
        OpExample(inputs=(Operand(shape=(2, 9)), Operand(shape=(9,))), settings={"acc": (I8, F32)}, dtypes=TERNARY),
    ),
)
LINEAR = OpSchema(
    name="linear",
    summary="x w + bias; float inputs may differ in type, computed in the widest (at least f32)",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", dtypes=FLOATS, doc="[..., K]"),
        InputSpec(name="w", dtypes=FLOATS, doc="[K, N], or [N, K] with trans_w"),
        InputSpec(name="bias", dtypes=FLOATS, optional=True, doc="[N]"),
    ),
    dtypes=FLOATS,
    settings=(_flag("trans_w", "w is [N, K]"),),
    infer=_linear_types,
    definition=Compute(_linear),
    in_place=True,
    onnx="Gemm",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5, 4)), Operand(shape=(4,)))),
        OpExample(inputs=(Operand(shape=(2, 3, 5)), Operand(shape=(4, 5)), None), settings={"trans_w": True}),
        OpExample(inputs=(Operand(shape=(5,)), Operand(shape=(5, 4), dtype="f16"), Operand(shape=(4,), dtype="f32"))),
    ),
)
