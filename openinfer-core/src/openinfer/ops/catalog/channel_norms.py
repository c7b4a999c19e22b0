"""Normalisation of the channels of x [N, C, ...]: over a batch's statistics, or within groups of channels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ops.catalog.normalisation import CATEGORY, EPSILON, standardised, wide_input
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
from openinfer.ops.shapes import integer, needed, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.schema import Decomposer

    Settings = Mapping[str, SettingValue]

_GROUPS = SettingSpec(
    name="groups", type=SettingType.INT, aliases=("group", "num_groups"), doc="groups of channels; they divide C"
)


def _channel_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """Check that x has channels, and every other input one element for each."""
    del settings, declared
    x = needed(inputs)
    if len(x.shape) < 2:
        raise OpTypeError(f"x is {x}, expected [N, C, ...]: at least two dims")
    for part in inputs[1:]:
        if part is not None and part.shape != x.shape[1:2]:
            raise OpTypeError(f"found {part}, expected one element per channel of x {x}: {shown(x.shape[1:2])}")
    return (x,)


def _group_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    types = _channel_types(inputs, settings, declared)
    groups, channels = integer(settings.get("groups"), "groups"), types[0].shape[1]
    if groups < 1 or channels % groups:
        raise OpTypeError(
            f"groups is {groups}: expected a divisor of the {channels} channels of {types[0]}", settings=("groups",)
        )
    return types


def _by_channel(steps: Decomposer, value: int | None, rank: int) -> int:
    """Return one element per channel in a shape that broadcasts to [N, C, ...]."""
    if value is None:
        raise OpTypeError("an input with one element per channel is missing", code="arity")
    (channels,) = steps.type_of(value).shape
    return steps.reshape(value, (channels, *(1,) * (rank - 2)))


def _batch_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    rank = len(steps.type_of(x).shape)
    scale, bias, mean, variance = (_by_channel(steps, value, rank) for value in widened(steps, inputs)[1:])
    deviation = steps.op("rsqrt", steps.op("add", variance, steps.op("fill", variance, value=settings.get("eps"))))
    scaled = steps.op("mul", steps.op("sub", x, mean), steps.op("mul", deviation, scale))
    return (rounded_like(steps, steps.op("add", scaled, bias), given),)


def _group_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given, x = wide_input(steps, inputs)
    kind = steps.type_of(x)
    if not kind.count:
        return (steps.op("identity", given),)
    groups = integer(settings.get("groups"), "groups")
    rows = steps.reshape(x, (kind.shape[0], groups, math.prod(kind.shape[1:]) // groups))
    whole = steps.reshape(standardised(steps, rows, (2,), settings.get("eps")), kind.shape)
    scale, bias = (_by_channel(steps, value, len(kind.shape)) for value in widened(steps, inputs)[1:])
    return (rounded_like(steps, steps.op("add", steps.op("mul", whole, scale), bias), given),)


def _instance_norm(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    given = inputs[0] or 0
    kind = steps.type_of(given)
    if not kind.count:
        return (steps.op("identity", given),)
    present = [value for value in inputs if value is not None]
    return (steps.op("group_norm", *present, groups=kind.shape[1], eps=settings.get("eps")),)


def _input(name: str, doc: str = "[C]") -> InputSpec:
    return InputSpec(name=name, dtypes=FLOATS, doc=doc)


_IMAGE = _input("x", "[N, C, ...]")


def _example(shape: tuple[int, ...], parts: int, dtype: str | None = None, **settings: SettingValue) -> OpExample:
    own = Operand(shape=shape[1:2], dtype=dtype)
    return OpExample(inputs=(Operand(shape=shape), *(own for _ in range(parts))), settings=settings)


BATCH_NORM = OpSchema(
    name="batch_norm",
    summary="(x - mean) / sqrt(var + eps) scale + bias by channel, with given statistics",
    category=CATEGORY,
    inputs=(_IMAGE, _input("scale"), _input("bias"), _input("mean"), _input("var", "[C], not negative")),
    dtypes=FLOATS,
    settings=(EPSILON,),
    infer=_channel_types,
    definition=Composite(_batch_norm),
    in_place=True,
    onnx="BatchNormalization",
    examples=tuple(
        OpExample(
            inputs=(Operand(shape=shape), *(Operand(shape=shape[1:2], dtype=dtype, low=0, high=3) for _ in range(4))),
            settings=settings,
        )
        for shape, dtype, settings in (
            ((2, 3, 5, 4), None, {}),
            ((3, 7), None, {"eps": 0.5}),
            ((1, 4, 9), "f32", {}),
            ((0, 3, 2), None, {}),
        )
    ),
)
GROUP_NORM = OpSchema(
    name="group_norm",
    summary="x standardised within each image and group of channels, times scale plus bias by channel",
    category=CATEGORY,
    inputs=(_IMAGE, _input("scale"), _input("bias")),
    dtypes=FLOATS,
    settings=(_GROUPS, EPSILON),
    infer=_group_types,
    definition=Composite(_group_norm),
    in_place=True,
    onnx="GroupNormalization",
    examples=(
        _example((2, 6, 3, 5), 2, groups=3),
        _example((3, 4), 2, groups=2, eps=0.5),
        _example((1, 4, 7), 2, "f32", groups=1),
        _example((0, 4, 3), 2, groups=2),
    ),
)
INSTANCE_NORM = OpSchema(
    name="instance_norm",
    summary="x standardised within each image and channel, times scale plus bias by channel",
    category=CATEGORY,
    inputs=(_IMAGE, _input("scale"), _input("bias")),
    dtypes=FLOATS,
    settings=(EPSILON,),
    infer=_channel_types,
    definition=Composite(_instance_norm),
    in_place=True,
    onnx="InstanceNormalization",
    examples=(
        _example((2, 3, 4, 5), 2),
        _example((2, 3, 7), 2, eps=0.5),
        _example((1, 2, 6), 2, "f64"),
        _example((2, 0, 3), 2),
    ),
)
