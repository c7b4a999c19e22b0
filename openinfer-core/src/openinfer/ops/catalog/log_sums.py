"""Reductions of exponentials."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.catalog.normalisation import wide_input
from openinfer.ops.catalog.reductions import CATEGORY, SUM_AXIS
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.mixed_floats import rounded_like
from openinfer.ops.schema import Composite, InputSpec, Operand, OpExample, OpSchema
from openinfer.ops.shapes import axes_of, needed, reduced

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import Decomposer

    Settings = Mapping[str, SettingValue]


def _types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    axes = axes_of(settings.get("axes"), len(x.shape))
    return (TensorType(x.dtype, reduced(x.shape, axes, keepdims=bool(settings.get("keepdims")))),)


def _logsumexp(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    """The maximum is taken out of the sum where it is finite, so that no power overflows."""
    given, x = wide_input(steps, inputs)
    shape = steps.type_of(x).shape
    axes, keepdims = axes_of(settings.get("axes"), len(shape)), bool(settings.get("keepdims"))
    if not math.prod(shape[axis] for axis in axes):
        nothing = steps.op("log", steps.op("sum_axis", x, axes=axes, keepdims=keepdims))
        return (rounded_like(steps, nothing, given),)
    greatest = steps.op("max_axis", x, axes=axes, keepdims=True)
    finite = steps.op("fill_nan_like", greatest)
    powers = steps.op("exp", steps.op("sub", x, finite))
    total = steps.op("log", steps.op("sum_axis", powers, axes=axes, keepdims=keepdims))
    taken = finite if keepdims else steps.op("sum_axis", finite, axes=axes)
    return (rounded_like(steps, steps.op("add", total, taken), given),)


def _example(*shape: int, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(Operand(shape=shape),), settings=settings)


LOGSUMEXP_AXIS = OpSchema(
    name="logsumexp_axis",
    summary="logarithm of the sum of e^x; -inf for an empty slice",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=FLOATS,
    settings=tuple(spec for spec in SUM_AXIS.settings if spec.name in ("axes", "keepdims")),
    infer=_types,
    definition=Composite(_logsumexp),
    aliases=("logsumexp", "reduce_logsumexp"),
    onnx="ReduceLogSumExp",
    examples=(
        _example(3, 7, axes=1),
        _example(2, 3, 5, axes=(0, 2), keepdims=True),
        _example(2, 3),
        _example(),
        _example(2, 0, axes=1),
    ),
)
