"""Normalisation along the last dims: softmax, and rows scaled to a given mean or size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.compute import Order
from openinfer.dims import stretches
from openinfer.expr import tree
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.elementwise import work_type
from openinfer.ops.mixed_floats import rounded_like, widened
from openinfer.ops.schema import (
    Composite,
    Compute,
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
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as BuiltOperand
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Decomposer

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
    return len(shape) <= len(target) and all(map(stretches, shape, ends))


def wide_input(steps: Decomposer, inputs: Sequence[int | None]) -> tuple[int, int]:
    """Return the first input, and the same in the type that the operator computes in."""
    given, wide = inputs[0], widened(steps, inputs)[0]
    if given is None or wide is None:
        raise OpTypeError("input x is missing", code="arity")
    return given, wide


@dataclass(frozen=True, slots=True)
class _Slices:
    """The slices along one dim, in the type that they are computed in.

    Attributes:
        axis: the dim.
        shape: of the whole.
        element: x at a place.
        tops: the greatest element of each slice, at the place without the dim.
    """

    k: Builder
    axis: int
    shape: tuple[Index, ...]
    element: Callable[[Sequence[Var]], Value]
    tops: BuiltOperand

    def outside(self, at: Sequence[Var]) -> tuple[Var, ...]:
        """Return the place of a slice, from that of an element of it."""
        return (*at[: self.axis], *at[self.axis + 1 :])

    def total(self, term: Callable[[Sequence[Var]], Value]) -> BuiltOperand:
        """Append the stage that adds up a term of each slice."""
        at = self.k.axes(*self.shape)
        totals = self.k.temporary(term(at).dtype, *self.tops.shape)
        totals[self.outside(at)] = self.k.sum(term(at), (at[self.axis],))
        return totals

    def shifted(self, at: Sequence[Var]) -> Value:
        """Return an element less the greatest one of its slice, which leaves no power of e above 1."""
        return self.element(at) - self.tops[self.outside(at)]


def _slices(k: Builder, call: OpCall) -> _Slices:
    """Append the stage of the greatest elements. Of zeros it is any; a NaN is passed over, and its power is NaN."""
    (x,) = k.given
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(x.shape))
    wide = work_type(x.dtype)

    def element(at: Sequence[Var]) -> Value:
        return x[tuple(at)].cast(wide)

    tops = k.temporary(wide, *x.shape[:axis], *x.shape[axis + 1 :])
    found = _Slices(k, axis, x.shape, element, tops)
    at = k.axes(*x.shape)
    greatest = k.fold(element(at), (at[axis],), tree.maximum, start=-math.inf, order=Order.ANY)
    tops[found.outside(at)] = greatest
    return found


def _softmax(k: Builder, call: OpCall) -> None:
    slices, (y,) = _slices(k, call), k.outputs
    powers = k.temporary(slices.tops.dtype, *y.shape)
    at = k.axes(*y.shape)
    powers[at] = k.apply(tree.exp, slices.shifted(at))
    totals = slices.total(lambda at: powers[tuple(at)])
    at = k.axes(*y.shape)
    y[at] = powers[at] / totals[slices.outside(at)]


def _log_softmax(k: Builder, call: OpCall) -> None:
    slices, (y,) = _slices(k, call), k.outputs
    totals = slices.total(lambda at: k.apply(tree.exp, slices.shifted(at)))
    at = k.axes(*y.shape)
    y[at] = slices.shifted(at) - k.apply(tree.log, totals[slices.outside(at)])


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


def _along_axis(name: str, definition: Composite | Compute, summary: str, onnx: str) -> OpSchema:
    """Return an operator on the slices along one dim, each by itself."""
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=FLOATS,
        settings=(_AXIS,),
        infer=_same_type,
        definition=definition,
        in_place=True,
        onnx=onnx,
        examples=_ROWS,
    )


SOFTMAX = _along_axis(
    "softmax",
    Compute(_softmax),
    "e^(x - m) over its sum along the axis, m the maximum; NaN where all are -inf",
    "Softmax",
)
LOG_SOFTMAX = _along_axis(
    "log_softmax",
    Compute(_log_softmax),
    "x - m - log of the sum of e^(x - m) along the axis, m the maximum",
    "LogSoftmax",
)
L2_NORM = _along_axis(
    "l2_norm", Composite(_l2_norm), "x / sqrt(sum of x^2) along the axis; 0 where all are 0", "LpNormalization"
)
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
