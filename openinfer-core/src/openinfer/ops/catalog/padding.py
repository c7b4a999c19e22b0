"""Margins around a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import DType, Kind
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.margins import MODES, margins
from openinfer.ops.scalar_settings import scalar_setting
from openinfer.ops.schema import (
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    Primitive,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
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


def _example(*shape: int, pads: tuple[int, ...], lacking: str | None = None, **more: SettingValue) -> OpExample:
    dtypes = EVERY - {lacking} if lacking else None
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
            doc="margins before every dim, then those behind; negative ones cut off, before anything is added",
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
    definition=Primitive(),
    in_place=True,
    onnx="Pad",
    examples=(
        _example(3, 5, pads=(1, 2, 0, 3), value=1, lacking="i1"),
        _example(3, 5, pads=(2, -1, -1, 4), lacking="t1"),
        _example(3, 5, pads=(2, 1, 1, 3), mode="reflect"),
        _example(3, 5, pads=(2, 1, 0, 7), mode="edge"),
        _example(3, 5, pads=(4, -1, 1, 3), mode="wrap"),
        _example(0, 2, pads=(1, 0, 1, 0), value=1, lacking="i1"),
        _example(pads=(), value=1, lacking="i1"),
    ),
)
