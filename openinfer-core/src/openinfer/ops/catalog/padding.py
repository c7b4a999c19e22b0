"""Margins around a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.affine import Index
from openinfer.dtypes import I64, DType, Kind
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.elementwise import work_type
from openinfer.ops.margins import MODES, margins
from openinfer.ops.scalar_settings import scalar_setting
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
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.margins import Margin
    from openinfer.scalars import Scalar

    Settings = Mapping[str, SettingValue]


def pad_value(settings: Settings, dtype: DType) -> Scalar:
    """Return the element that a constant margin is made of.

    Raises:
        OpTypeError: the type does not hold it.
    """
    value = scalar_setting(settings, "value", dtype)
    if dtype.kind is Kind.TERNARY and dtype.bits == 1 and value == 0:
        raise OpTypeError(
            f"setting 'value' is 0; for {dtype} it takes -1 or 1", code="setting-type", settings=("value",)
        )
    return value


def _pad_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    found = margins(x.shape, settings)
    if settings.get("mode") == "constant":
        pad_value(settings, x.dtype)
    return (TensorType(x.dtype, tuple(margin.extent for margin in found)),)


def _pad(k: Builder, call: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    sides, mode = margins(needed(call.inputs).shape, call.settings), call.settings.get("mode")
    at, value = k.axes(*y.shape), pad_value(call.settings, y.dtype) if mode == "constant" else 0
    if any(dims.surely(lambda extent=extent: extent == 0) for extent in needed(call.inputs).shape):
        # x has no elements to read: y holds the value alone, or is empty too, as other margins are refused.
        y[at] = k.constant(value, work_type(y.dtype))
    elif mode != "constant":
        y[at] = x[tuple(_mirrored(k, axis, margin, str(mode)) for axis, margin in zip(at, sides, strict=True))]
    else:
        y[at] = x.within(*(axis - margin.pad_before for axis, margin in zip(at, sides, strict=True)), fill=value)


def _mirrored(k: Builder, axis: Var, margin: Margin, mode: str) -> Index:
    """Return the place of x that a place along an axis holds."""
    if dims.surely(lambda: margin.pad_before <= 0 and margin.pad_after <= 0):
        return axis - margin.pad_before
    inner, count = axis - margin.before, margin.count
    if mode == "wrap" and dims.surely(lambda: margin.pad_before >= 0 and margin.pad_after >= 0):
        return inner % dims.max(count, 1)
    if mode == "wrap":
        place = k.position(inner % dims.max(count, 1))
    elif mode == "edge":
        place = k.apply(tree.maximum, k.position(axis - margin.pad_before), k.constant(0, I64))
        place = k.apply(tree.minimum, place, k.constant(margin.size - 1, I64))
    else:
        period = dims.max(2 * (count - 1), 1)
        place = k.position(inner % period)
        place = k.apply(tree.minimum, place, k.constant(period, I64) - place)
    # A table of the places is computed once, not at every element.
    table = k.temporary(I64, margin.extent)
    table[axis] = place
    if mode == "edge":
        return Index.of(k.lookup(table[axis], margin.size, "margins hold elements of x"))
    return margin.first + k.lookup(table[axis], count, "margins hold elements of x")


def _example(*shape: int, pads: tuple[int, ...], without: str | None = None, **more: SettingValue) -> OpExample:
    dtypes = EVERY - {without} if without else None
    return OpExample(inputs=(Operand(shape=shape),), settings={"pads": pads, **more}, dtypes=dtypes)


PAD = OpSchema(
    name="pad",
    summary="x with margins, or with margins cut off where pads are negative",
    category="movement",
    inputs=(InputSpec(name="x"),),
    dtypes=EVERY,
    settings=(
        SettingSpec(
            name="pads",
            type=SettingType.INT_LIST,
            aliases=("padding",),
            doc="margins before every dim, then those after; negative ones cut off, before anything is added",
        ),
        SettingSpec(
            name="mode",
            type=SettingType.STR,
            default="constant",
            choices=MODES,
            doc="what margins hold: the value, x mirrored without its edge, its edge, or x over again",
        ),
        SettingSpec(name="value", type=SettingType.SCALAR, default=0, doc="element of a constant margin"),
    ),
    infer=_pad_types,
    definition=Compute(_pad),
    in_place=True,
    onnx="Pad",
    examples=(
        _example(3, 5, pads=(1, 2, 0, 3), value=1, without="i1"),
        _example(3, 5, pads=(2, -1, -1, 4), without="t1"),
        _example(3, 5, pads=(2, 1, 1, 3), mode="reflect"),
        _example(3, 5, pads=(2, 1, 0, 7), mode="edge"),
        _example(3, 5, pads=(4, -1, 1, 3), mode="wrap"),
        _example(0, 2, pads=(1, 0, 1, 0), value=1, without="i1"),
        _example(pads=(), value=1, without="i1"),
    ),
)
