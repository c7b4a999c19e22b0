"""Products of quantised tensors: exact sums of integers, and real rows by matrices of small integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I16, I32
from openinfer.ir.types import TensorType
from openinfer.ops.catalog.convolution import CONV2D
from openinfer.ops.catalog.linear_algebra import matmul_shape
from openinfer.ops.catalog.quantisation import CATEGORY, check_scales, needed_scale
from openinfer.ops.dtype_sets import FLOATS, PACKED_SIGNED, PACKED_UNSIGNED
from openinfer.ops.mixed_floats import cast_to, widest
from openinfer.ops.schema import (
    Composite,
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

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import Decomposer

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


def _centred(steps: Decomposer, value: int, zero: int | None, column: bool = False) -> int:
    """Return small integers less their zero point, as i16, which holds every such difference."""
    wide = steps.op("cast", value, to=I16)
    if zero is None:
        return wide
    offset = _as_column(steps, zero) if column else zero
    return steps.op("sub", wide, steps.op("cast", offset, to=I16))


def _as_column(steps: Decomposer, value: int) -> int:
    shape = steps.type_of(value).shape
    return steps.reshape(value, (*shape, 1)) if shape else value


def _matmul_integer(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    del settings
    a, b, a_zero, b_zero = _padded(inputs, 4)
    left = _centred(steps, _known(a), a_zero, column=True)
    return (steps.op("matmul", left, _centred(steps, _known(b), b_zero), acc=I32),)


def _padded(inputs: Sequence[int | None], count: int) -> list[int | None]:
    return [*inputs, *([None] * (count - len(inputs)))]


def _known(value: int | None) -> int:
    if value is None:
        raise OpTypeError("an input is missing", code="arity")
    return value


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


def _conv_integer(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x, w, x_zero, w_zero = _padded(inputs, 4)
    if w_zero is not None and steps.type_of(w_zero).shape:
        w_zero = steps.reshape(w_zero, (*steps.type_of(w_zero).shape, 1, 1, 1))
    image, kernels = _centred(steps, _known(x), x_zero), _centred(steps, _known(w), w_zero)
    return (steps.op("conv2d", image, kernels, **{**settings, "acc": I32}),)


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


def _qlinear(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    del settings
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (_known(value) for value in inputs)
    total = cast_to(steps, steps.op("matmul_integer", a, b, a_zero, b_zero), F32)
    rows, columns, out = (cast_to(steps, scale, F32) for scale in (a_scale, b_scale, y_scale))
    real = steps.op("mul", total, steps.op("mul", _as_column(steps, rows), columns))
    return (steps.op("quantize_linear", real, out, y_zero),)


def _qmatmul_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x, w, scale = needed(inputs), needed(inputs, 1), needed_scale("qmatmul", "w", inputs, 2)
    zero_point, bias = optional(inputs, 3), optional(inputs, 4)
    if not x.shape or len(w.shape) != 2:
        raise OpTypeError(f"qmatmul takes x [..., K] and w [K, N] ([N, K] with trans_w), found {x} and {w}")
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


def _qmatmul(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x, w, scale, zero_point, bias = _padded(inputs, 5)
    first, out = _known(x), steps.outputs[0].dtype
    given = [value for value in (x, scale, bias) if value is not None]
    wide = widest([steps.type_of(value).dtype for value in given])
    parameters = [cast_to(steps, _known(scale), wide), *([] if zero_point is None else [zero_point])]
    real = steps.op(
        "dequantize_linear", _known(w), *parameters, axis=_axis(settings), block_size=settings.get("group_size")
    )
    product = steps.op("matmul", cast_to(steps, first, wide), real, trans_b=settings.get("trans_w"))
    if bias is not None:
        product = steps.op("add", product, cast_to(steps, bias, wide))
    return (cast_to(steps, product, out),)


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
    definition=Composite(_matmul_integer),
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
    summary="conv2d of (x - x_zero) with (w - w_zero), exact in i32, which wraps; padding stands for x_zero",
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
    definition=Composite(_conv_integer),
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
    summary="quantize_linear of the product of dequantised a and b; the sum of integers is exact, scales are f32",
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
    definition=Composite(_qlinear),
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
            doc="[], [N], or with group_size [K/group_size, N] (trans_w: turned); w's quant payload has it too",
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
    definition=Composite(_qmatmul),
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
