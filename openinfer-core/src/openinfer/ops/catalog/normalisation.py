"""Normalisation of whole rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.calls import compute_type
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.schema import Composite, InputSpec, OpSchema, SettingSpec, SettingType
from openinfer.ops.shapes import axis_of, integer, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Decomposer

    Settings = Mapping[str, SettingValue]

CATEGORY = "normalisation"
_AXIS = SettingSpec(
    name="axis", type=SettingType.INT, default=-1, aliases=("axes",), doc="the dim, negative from the end"
)


def _same_type(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    return (x,)


def _powers(steps: Decomposer, x: int, axis: SettingValue) -> tuple[int, int, int]:
    """Return x less its maximum along the axis, e to that power, and the sum of those."""
    greatest = steps.op("max_axis", x, axes=axis, keepdims=True)
    shifted = steps.op("sub", x, greatest)
    powers = steps.op("exp", shifted)
    return shifted, powers, steps.op("sum_axis", powers, axes=axis, keepdims=True)


def _widened(steps: Decomposer, x: int) -> int:
    dtype = steps.type_of(x).dtype
    wide = compute_type(dtype)
    return x if wide is dtype else steps.op("cast", x, to=wide)


def _narrowed(steps: Decomposer, value: int, like: int) -> int:
    dtype = steps.type_of(like).dtype
    return value if steps.type_of(value).dtype is dtype else steps.op("cast", value, to=dtype)


def _softmax(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x = next(value for value in inputs if value is not None)
    _, powers, total = _powers(steps, _widened(steps, x), settings.get("axis"))
    return (_narrowed(steps, steps.op("div", powers, total, div_by_zero_mask="ieee"), x),)


def _log_softmax(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x = next(value for value in inputs if value is not None)
    shifted, _, total = _powers(steps, _widened(steps, x), settings.get("axis"))
    return (_narrowed(steps, steps.op("sub", shifted, steps.op("log", total)), x),)


SOFTMAX = OpSchema(
    name="softmax",
    summary="e^(x - m) over its sum along the axis, m the maximum; NaN where all are -inf",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS,
    settings=(_AXIS,),
    infer=_same_type,
    definition=Composite(_softmax),
    in_place=True,
    onnx="Softmax",
)
LOG_SOFTMAX = OpSchema(
    name="log_softmax",
    summary="x - m - log of the sum of e^(x - m) along the axis, m the maximum",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS,
    settings=(_AXIS,),
    infer=_same_type,
    definition=Composite(_log_softmax),
    in_place=True,
    onnx="LogSoftmax",
)
