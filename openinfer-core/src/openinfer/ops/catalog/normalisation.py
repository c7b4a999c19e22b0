"""Normalisation along the last dims: softmax, and rows scaled to a given mean or size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.mixed_floats import rounded_like, widened
from openinfer.ops.schema import (
    Composite,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import axis_of, integer, needed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Decompose, Decomposer

    Settings = Mapping[str, SettingValue]

CATEGORY = "normalisation"
EPSILON = SettingSpec(
    name="eps", type=SettingType.FLOAT, default=1e-5, aliases=("epsilon",), doc="added under the square root"
)
_AXIS = SettingSpec(
    name="axis", type=SettingType.INT, default=-1, aliases=("axes",), doc="the dim, negative from the end"
)
_FIRST_AXIS = SettingSpec(
    name="axis",
    type=SettingType.INT,
    default=-1,
    doc="first dim of a row, negative from the end; the rest belongs to the row too",
)


def row_axes(rank: int, settings: Settings) -> tuple[int, ...]:
    """Return the dims of a row: from ``axis`` to the last.

    Raises:
        OpTypeError: the axis is out of range.
    """
    return tuple(range(axis_of(integer(settings.get("axis"), "axis"), rank), rank))


def _same_type(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    return (x,)


def _row_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    row = x.shape[row_axes(len(x.shape), settings)[0] :]
    for name, part in zip(("scale", "bias"), inputs[1:], strict=False):
        if part is not None and not _stretches(part.shape, row):
            raise OpTypeError(f"{name} is {part}, expected a shape that broadcasts to a row of {x}: {shown(row)}")
    return (x,)


def _stretches(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether a shape broadcasts to exactly the target."""
    ends = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(have in (1, dim) for have, dim in zip(shape, ends, strict=True))


def _powers(steps: Decomposer, x: int, axis: SettingValue) -> tuple[int, int, int]:
    """Return x less its maximum along the axis, e to that power, and the sum of those."""
    greatest = steps.op("max_axis", x, axes=axis, keepdims=True)
    shifted = steps.op("sub", x, greatest)
    powers = steps.op("exp", shifted)
    return shifted, powers, steps.op("sum_axis", powers, axes=axis, keepdims=True)


def wide_input(steps: Decomposer, inputs: Sequence[int | None]) -> tuple[int, int]:
    """Return the first input, and the same in the type that the operator computes in."""
    given, wide = inputs[0], widened(steps, inputs)[0]
    if given is None or wide is None:
        raise OpTypeError("input x is missing", code="arity")
    return given, wide


def _softmax(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    if not steps.type_of(given).count:
        return (steps.op("identity", given),)
    _, powers, total = _powers(steps, x, settings.get("axis"))
    return (rounded_like(steps, steps.op("div", powers, total, div_by_zero_mask="ieee"), given),)


def _log_softmax(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    if not steps.type_of(given).count:
        return (steps.op("identity", given),)
    shifted, _, total = _powers(steps, x, settings.get("axis"))
    return (rounded_like(steps, steps.op("sub", shifted, steps.op("log", total)), given),)


def over_root_mean_square(steps: Decomposer, x: int, axes: tuple[int, ...], eps: SettingValue) -> int:
    """Return x over the square root of the mean of its squares plus ``eps``."""
    mean = steps.op("mean_axis", steps.op("mul", x, x), axes=axes, keepdims=True)
    return steps.op("mul", x, steps.op("rsqrt", steps.op("add", mean, steps.op("fill", mean, value=eps))))


def standardised(steps: Decomposer, x: int, axes: tuple[int, ...], eps: SettingValue) -> int:
    """Return x less its mean, over the square root of its population variance plus ``eps``."""
    centred = steps.op("sub", x, steps.op("mean_axis", x, axes=axes, keepdims=True))
    return over_root_mean_square(steps, centred, axes, eps)


def _layer_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    _, scale, bias = (*widened(steps, inputs), None, None)[:3]
    result = standardised(steps, x, row_axes(len(steps.type_of(x).shape), settings), settings.get("eps"))
    if scale is not None:
        result = steps.op("mul", result, scale)
    if bias is not None:
        result = steps.op("add", result, bias)
    return (rounded_like(steps, result, given),)


def _rms_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    _, scale = (*widened(steps, inputs), None)[:2]
    result = over_root_mean_square(steps, x, row_axes(len(steps.type_of(x).shape), settings), settings.get("eps"))
    if scale is not None:
        result = steps.op("mul", result, scale)
    return (rounded_like(steps, result, given),)


def _l2_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    length = steps.op("l2_axis", x, axes=settings.get("axis"), keepdims=True)
    return (rounded_like(steps, steps.op("div", x, length, div_by_zero_mask=0.0), given),)


_ROWS = (
    OpExample(inputs=(Operand(shape=(3, 7)),)),
    OpExample(inputs=(Operand(shape=(2, 3, 5)),), settings={"axis": 1}),
    OpExample(inputs=(Operand(shape=(1,)),)),
    OpExample(inputs=(Operand(shape=(0, 4)),)),
    OpExample(inputs=(Operand(shape=(2, 0)),)),
)


def _along_axis(name: str, decompose: Decompose, summary: str, onnx: str) -> OpSchema:
    """Return an operator on the slices along one dim, each by itself."""
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=FLOATS,
        settings=(_AXIS,),
        infer=_same_type,
        definition=Composite(decompose),
        in_place=True,
        onnx=onnx,
        examples=_ROWS,
    )


SOFTMAX = _along_axis(
    "softmax", _softmax, "e^(x - m) over its sum along the axis, m the maximum; NaN where all are -inf", "Softmax"
)
LOG_SOFTMAX = _along_axis(
    "log_softmax",
    _log_softmax,
    "x - m - log of the sum of e^(x - m) along the axis, m the maximum",
    "LogSoftmax",
)
L2_NORM = _along_axis("l2_norm", _l2_norm, "x / sqrt(sum of x^2) along the axis; 0 where all are 0", "LpNormalization")
LAYER_NORM = OpSchema(
    name="layer_norm",
    summary="(x - mean) / sqrt(variance + eps) scale + bias over each row; float inputs may differ in type",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", dtypes=FLOATS, doc="[..., row]"),
        InputSpec(name="scale", dtypes=FLOATS, optional=True, doc="broadcasts to a row"),
        InputSpec(name="bias", dtypes=FLOATS, optional=True, doc="broadcasts to a row"),
    ),
    dtypes=FLOATS,
    settings=(_FIRST_AXIS, EPSILON),
    infer=_row_types,
    definition=Composite(_layer_norm),
    in_place=True,
    onnx="LayerNormalization",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 7)), Operand(shape=(7,)), Operand(shape=(7,)))),
        OpExample(inputs=(Operand(shape=(2, 3, 5)), Operand(shape=(3, 5)), Operand(shape=(5,))), settings={"axis": 1}),
        OpExample(inputs=(Operand(shape=(4, 6)), None, Operand(shape=(1,))), settings={"eps": 0.5}),
        OpExample(inputs=(Operand(shape=(4, 6)), Operand(shape=(6,), dtype="f64"), Operand(shape=(6,), dtype="f16"))),
        OpExample(inputs=(Operand(shape=(5,)),)),
        OpExample(inputs=(Operand(shape=(0, 4)), Operand(shape=(4,)))),
        OpExample(inputs=(Operand(shape=(2, 0)),)),
    ),
)
RMS_NORM = OpSchema(
    name="rms_norm",
    summary="x / sqrt(mean(x^2) + eps) scale over each row; float inputs may differ in type",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", dtypes=FLOATS, doc="[..., row]"),
        InputSpec(name="scale", dtypes=FLOATS, optional=True, doc="broadcasts to a row"),
    ),
    dtypes=FLOATS,
    settings=(_FIRST_AXIS, EPSILON),
    infer=_row_types,
    definition=Composite(_rms_norm),
    in_place=True,
    onnx="RMSNormalization",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 7)), Operand(shape=(7,)))),
        OpExample(inputs=(Operand(shape=(2, 3, 5)), Operand(shape=(3, 5))), settings={"axis": -2, "eps": 0.25}),
        OpExample(inputs=(Operand(shape=(4, 6)), Operand(shape=(6,), dtype="f32"))),
        OpExample(inputs=(Operand(shape=(5,)),)),
        OpExample(inputs=(Operand(shape=(0, 4)), Operand(shape=(4,)))),
        OpExample(inputs=(Operand(shape=(2, 0)),)),
    ),
)
