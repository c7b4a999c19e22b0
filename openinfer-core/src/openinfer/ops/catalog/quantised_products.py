"""Products of quantised tensors: exact sums of integers, and real rows by matrices of small integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Value
from openinfer.dtypes import F32, I16, I32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.catalog.convolution import CONV2D, sliding
from openinfer.ops.catalog.linear_algebra import factors_of, matmul_shape
from openinfer.ops.catalog.quantisation import CATEGORY, check_scales, needed_scale
from openinfer.ops.conversion import converted
from openinfer.ops.dtype_sets import FLOATS, PACKED_SIGNED, PACKED_UNSIGNED
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
    StoredScales,
)
from openinfer.ops.shapes import integer, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Builder
    from openinfer.compute import Operand as BuiltOperand
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]

SMALL = PACKED_SIGNED | PACKED_UNSIGNED | {"i8", "u8"}
BYTES = frozenset({"i8", "u8"})
WEIGHTS = frozenset({"i8", "u8", "i4", "u4", "i2", "u2", "t2", "t1"})


def _check_along(what: str, given: TensorType | None, like: TensorType, extent: tuple[int, ...], of: str) -> None:
    """Check that something is a scalar or has one element per row or column."""
    if given is not None and given.shape and given.shape != extent:
        legal = f"[] or one per {of}: {shown(extent)}" if extent else f"[]: {like} has no {of}s"
        raise OpTypeError(f"{what} is {given}, expected shape {legal}")


def _check_zero(what: str, given: TensorType | None, like: TensorType) -> None:
    if given is not None and given.dtype is not like.dtype:
        raise OpTypeError(
            f"{what} is {given}, expected the type of what it is subtracted from: {like.dtype}",
            code="dtype-unsupported",
        )


def _rows(a: TensorType) -> tuple[int, ...]:
    return a.shape[-2:-1]


def _columns(b: TensorType) -> tuple[int, ...]:
    return b.shape[-1:] if len(b.shape) > 1 else ()


def _matmul_integer_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    a, b, a_zero, b_zero = needed(inputs), needed(inputs, 1), optional(inputs, 2), optional(inputs, 3)
    shape = matmul_shape(a.shape, b.shape)
    _check_zero("a_zero", a_zero, a)
    _check_zero("b_zero", b_zero, b)
    _check_along("a_zero", a_zero, a, _rows(a), "row")
    _check_along("b_zero", b_zero, b, _columns(b), "column")
    return (TensorType(I32, shape),)


def _matmul_integer(k: Builder, call: OpCall) -> None:
    del call
    a, b, a_zero, b_zero = (*k.inputs, None, None)[:4]
    at = k.axes(*k.outputs[0].shape)
    k.outputs[0][at] = _integer_sum(k, _there(a), _there(b), (a_zero, b_zero), at)


def _integer_sum(
    k: Builder,
    a: BuiltOperand,
    b: BuiltOperand,
    zeros: tuple[BuiltOperand | None, BuiltOperand | None],
    at: Sequence[Var],
) -> Value:
    """Return an element of the product of a and b less their zero points, which go along rows and columns, in i32."""
    where = factors_of(k, (a.shape, b.shape), at)
    left = _less(a[where.left].cast(I32), zeros[0], where.left[-2:-1])
    right = _less(b[where.right].cast(I32), zeros[1], where.right[-1:])
    return k.sum(left * right, (where.inner,))


def _less(value: Value, zero: BuiltOperand | None, along: Sequence[Index | Var]) -> Value:
    return value if zero is None else value - _along(zero, along).cast(value.dtype)


def _there(given: BuiltOperand | None) -> BuiltOperand:
    if given is None:
        raise OpTypeError("an input is missing", code="arity")
    return given


def _conv_integer_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    x, w, x_zero, w_zero = needed(inputs), needed(inputs, 1), optional(inputs, 2), optional(inputs, 3)
    wide = [TensorType(I16, x.shape), TensorType(I16, w.shape), None]
    found = CONV2D.infer(wide, {**settings, "acc": I32}, declared)
    _check_zero("x_zero", x_zero, x)
    _check_zero("w_zero", w_zero, w)
    _check_along("x_zero", x_zero, x, (), "zero point for a part")
    _check_along("w_zero", w_zero, w, w.shape[:1], "output channel")
    return found


def _conv_integer(k: Builder, call: OpCall) -> None:
    """Padding has the value x_zero: neither is read there."""
    x, w, x_zero, w_zero = (*k.inputs, None, None)[:4]
    window = sliding(k, call)
    element = window.read(_there(x)).cast(I32)
    if x_zero is not None:
        element = element - x_zero.within(fill=0, where=window.inside).cast(I32)
    weight = _less(_there(w)[window.weight].cast(I32), w_zero, window.weight[:1])
    k.outputs[0][window.at] = k.sum(weight * element, window.taps)


def _qlinear_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (needed(inputs, place) for place in range(8))
    shape = matmul_shape(a.shape, b.shape)
    for what, given, like in (("a_zero", a_zero, a), ("b_zero", b_zero, b)):
        _check_zero(what, given, like)
    for what, given in (("a_scale", a_scale), ("a_zero", a_zero)):
        _check_along(what, given, a, _rows(a), "row")
    for what, given in (("b_scale", b_scale), ("b_zero", b_zero)):
        _check_along(what, given, b, _columns(b), "column")
    for what, given in (("y_scale", y_scale), ("y_zero", y_zero)):
        _check_along(what, given, b, (), "scale for a part")
    return (TensorType(y_zero.dtype, shape),)


def _qlinear(k: Builder, call: OpCall) -> None:
    """``clip(rne(f32(total) m) + y_zero)`` with ``m = f32(f32(a_scale b_scale) / y_scale)``."""
    del call
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = k.given
    (y,), at = k.outputs, k.axes(*k.outputs[0].shape)
    is_matrix = int(len(b.shape) > 1)
    rows, columns = at[len(at) - 1 - is_matrix :][: len(a.shape[1:2])], at[-1:]
    total = _integer_sum(k, a, b, (a_zero, b_zero), at)
    left, right = (_along(scale, place).cast(F32) for scale, place in ((a_scale, rows), (b_scale, columns)))
    factor = left * right / y_scale[()].cast(F32)
    code = k.apply(tree.round_even, total.cast(F32) * factor) + y_zero[()].cast(F32)
    y[at] = Value(converted(code.expr, y.dtype))


def _along(given: BuiltOperand, place: Sequence[Index | Var]) -> Value:
    """Return a scale, of which there is one or one for each place along rows or columns."""
    return given[tuple(place) if given.shape else ()]


def _qmatmul_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, w, scale = needed(inputs), needed(inputs, 1), needed_scale("qmatmul", "w", inputs, 2)
    zero_point, bias = optional(inputs, 3), optional(inputs, 4)
    if not x.shape or len(w.shape) != 2:
        raise OpTypeError(f"takes x [..., K] and w [K, N] ([N, K] with trans_w), found {x} and {w}", of="qmatmul")
    inner, columns = reversed(w.shape) if settings.get("trans_w") else w.shape
    shape = matmul_shape(x.shape, (inner, columns))
    group = integer(settings.get("group_size"), "group_size")
    if group < 0 or (group and inner % group):
        raise OpTypeError(
            f"group_size is {group}: it divides the {inner} rows of w, or is 0",
            code="setting-type",
            settings=("group_size",),
        )
    check_scales(w, scale, zero_point, _axis(settings), group)
    if bias is not None and bias.shape != (columns,):
        raise OpTypeError(f"bias is {bias}, expected one element per column of the result: {shown((columns,))}")
    return (TensorType(x.dtype, shape),)


def _axis(settings: Settings) -> int:
    """Return the axis of w that scales go along: that of the groups, else that of the columns."""
    return int(bool(settings.get("group_size")) == bool(settings.get("trans_w")))


def _qmatmul(k: Builder, call: OpCall) -> None:
    """Weights are dequantised where they are read; rows of a group are an axis, along which scales stay."""
    x, w, scale, zero_point, bias = (*k.inputs, None, None, None)[:5]
    x, w, scale = _there(x), _there(w), _there(scale)
    (y,), at = k.outputs, k.axes(*k.outputs[0].shape)
    total = widest(given.dtype for given in (x, scale, bias) if given is not None)
    swapped, size = bool(call.settings.get("trans_w")), integer(call.settings.get("group_size"), "group_size")
    depth = needed(call.inputs).shape[-1]
    group, inner = (k.axis(depth // size), k.axis(size)) if size else (None, k.axis(depth))
    r = inner if group is None else group * size + inner
    place, parts = (r, at[-1]), (at[-1],) if group is None else (group, at[-1])
    if swapped:
        place, parts = place[::-1], parts[::-1]
    weight = _less(w[place].cast(total), zero_point, parts) * _along(scale, parts).cast(total)
    folded = (inner,) if group is None else (group, inner)
    value = k.sum(x[(*at[:-1], r)].cast(total) * weight, folded)
    if bias is not None:
        value = value + bias[at[-1]].cast(total)
    y[at] = value.cast(y.dtype)


def _scalar(dtype: str) -> Operand:
    return Operand(shape=(), dtype=dtype)


MATMUL_INTEGER = OpSchema(
    name="matmul_integer",
    summary="(a - a_zero) (b - b_zero) over the last two dims, exact in i32, which wraps",
    category=CATEGORY,
    inputs=(
        InputSpec(name="a", doc="[..., M, K] or [K]"),
        InputSpec(name="b", dtypes=SMALL, doc="[..., K, N] or [K]"),
        InputSpec(name="a_zero", dtypes=SMALL, optional=True, doc="of a's type: [] or [M]"),
        InputSpec(name="b_zero", dtypes=SMALL, optional=True, doc="of b's type: [] or [N]"),
    ),
    dtypes=SMALL,
    infer=_matmul_integer_types,
    definition=Compute(_matmul_integer),
    broadcast=True,
    onnx="MatMulInteger",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5, 4)), Operand(shape=(3,)), Operand(shape=(4,)))),
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5, 4), dtype="i8"), Operand(shape=()))),
        OpExample(inputs=(Operand(shape=(2, 1, 3, 5)), Operand(shape=(3, 5, 7), dtype="u4"), None, _scalar("u4"))),
        OpExample(inputs=(Operand(shape=(5,)), Operand(shape=(5,)))),
        OpExample(inputs=(Operand(shape=(3, 0)), Operand(shape=(0, 2)))),
    ),
)
CONV_INTEGER = OpSchema(
    name="conv_integer",
    summary="conv2d of (x - x_zero) with (w - w_zero), exact in i32, which wraps; padding has the value x_zero",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="[N, C, H, W]"),
        InputSpec(name="w", dtypes=SMALL, doc="[O, C/groups, h, w]"),
        InputSpec(name="x_zero", dtypes=SMALL, optional=True, doc="of x's type: []"),
        InputSpec(name="w_zero", dtypes=SMALL, optional=True, doc="of w's type: [] or [O]"),
    ),
    dtypes=SMALL,
    settings=tuple(setting for setting in CONV2D.settings if setting.name != "acc"),
    infer=_conv_integer_types,
    definition=Compute(_conv_integer),
    onnx="ConvInteger",
    examples=(
        OpExample(
            inputs=(Operand(shape=(2, 3, 7, 5)), Operand(shape=(4, 3, 3, 2)), Operand(shape=()), Operand(shape=(4,))),
            settings={"stride": (2, 1), "padding": (1, 0, 2, 1)},
        ),
        OpExample(
            inputs=(Operand(shape=(1, 4, 6, 6)), Operand(shape=(4, 1, 3, 3), dtype="i8"), None, _scalar("i8")),
            settings={"groups": 4, "dilation": 2, "padding": "same_upper"},
        ),
        OpExample(inputs=(Operand(shape=(0, 1, 3, 3)), Operand(shape=(2, 1, 2, 2)))),
    ),
)
QLINEAR_MATMUL = OpSchema(
    name="qlinear_matmul",
    summary="quantised product of a and b: the exact sum of integers times f32(f32(a_scale b_scale) / y_scale)",
    category=CATEGORY,
    inputs=(
        InputSpec(name="a", doc="[..., M, K] or [K]"),
        InputSpec(name="a_scale", dtypes=FLOATS, doc="[] or [M]"),
        InputSpec(name="a_zero", dtypes=BYTES, doc="of a's type: [] or [M]"),
        InputSpec(name="b", dtypes=BYTES, doc="[..., K, N] or [K]"),
        InputSpec(name="b_scale", dtypes=FLOATS, doc="[] or [N]"),
        InputSpec(name="b_zero", dtypes=BYTES, doc="of b's type: [] or [N]"),
        InputSpec(name="y_scale", dtypes=FLOATS, doc="[]"),
        InputSpec(name="y_zero", dtypes=BYTES, doc="[], of the type of the output"),
    ),
    dtypes=BYTES,
    infer=_qlinear_types,
    definition=Compute(_qlinear),
    in_place=True,
    onnx="QLinearMatMul",
    examples=(
        OpExample(
            inputs=(
                *(Operand(shape=(3, 5)), _scalar("f32"), Operand(shape=())),
                *(Operand(shape=(5, 4), dtype="i8"), _scalar("f32"), _scalar("i8")),
                *(_scalar("f32"), Operand(shape=())),
            )
        ),
        OpExample(
            inputs=(
                *(Operand(shape=(2, 3, 5)), Operand(shape=(3,), dtype="f32"), Operand(shape=(3,))),
                *(Operand(shape=(5, 4), dtype="u8"), Operand(shape=(4,), dtype="f16"), Operand(shape=(4,), dtype="u8")),
                *(_scalar("f32"), _scalar("u8")),
            )
        ),
    ),
)


def _weights(x: tuple[int, ...], w: tuple[int, ...], scale: tuple[int, ...], **more: bool | int) -> list[OpExample]:
    """Return examples for every type of weights, with zero points and a bias."""
    columns = w[0] if more.get("trans_w") else w[1]
    return [
        OpExample(
            inputs=(
                Operand(shape=x),
                Operand(shape=w, dtype=dtype),
                Operand(shape=scale),
                Operand(shape=scale, dtype=dtype),
                Operand(shape=(columns,)),
            ),
            settings=more,
        )
        for dtype in sorted(WEIGHTS)
    ]


QMATMUL = OpSchema(
    name="qmatmul",
    summary="x by the dequantised w, plus bias; accumulated in f32 (f64 where an input is) and rounded once",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="[..., K]"),
        InputSpec(name="w", dtypes=WEIGHTS, doc="[K, N], or [N, K] with trans_w"),
        InputSpec(
            name="scale",
            dtypes=FLOATS,
            optional=True,
            doc="[], [N], or with group_size [K/group_size, N] (trans_w: transposed); w's quant payload has it too",
        ),
        InputSpec(name="zero_point", dtypes=WEIGHTS, optional=True, doc="of w's type, in the shape of scale"),
        InputSpec(name="bias", dtypes=FLOATS, optional=True, doc="[N]"),
    ),
    dtypes=FLOATS,
    settings=(
        SettingSpec(
            name="group_size",
            type=SettingType.INT,
            default=0,
            doc="elements along K that share a scale, a divisor of K; 0: one scale for w, or for each column",
        ),
        SettingSpec(name="trans_w", type=SettingType.BOOL, default=False, doc="w is [N, K]"),
    ),
    infer=_qmatmul_types,
    definition=Compute(_qmatmul),
    in_place=True,
    onnx="DequantizeLinear, MatMul",
    stored_scales=StoredScales(of="w", axis=_axis),
    examples=(
        *_weights((2, 6), (6, 5), (2, 5), group_size=3),
        *_weights((2, 32), (32, 8), (2, 8), group_size=16),
        *_weights((9, 4), (4, 8), (2, 8), group_size=2),
        *_weights((3, 6), (5, 6), (5, 3), group_size=2, trans_w=True),
        OpExample(inputs=(Operand(shape=(2, 3, 5)), Operand(shape=(5, 7), dtype="i4"), Operand(shape=(7,)))),
        OpExample(inputs=(Operand(shape=(5,)), Operand(shape=(5, 3), dtype="i8"), _scalar("f32"), _scalar("i8"))),
        OpExample(
            inputs=(Operand(shape=(2, 3)), Operand(shape=(5, 3), dtype="u2"), Operand(shape=(5,), dtype="f16")),
            settings={"trans_w": True},
        ),
        OpExample(inputs=(Operand(shape=(2, 0)), Operand(shape=(0, 3), dtype="i4"), Operand(shape=(3,)))),
    ),
)
