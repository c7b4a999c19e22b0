"""Pooling of images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.schema import Composite, InputSpec, OpSchema, OpTypeError, Primitive, SettingSpec, SettingType
from openinfer.ops.shapes import needed
from openinfer.ops.windows import CEIL_MODE, DILATION, KERNEL, PADDING, STRIDE, per_dim, windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import Decomposer, Definition, InferTypes

    Settings = Mapping[str, SettingValue]

CATEGORY = "pooling"


def _image(inputs: Sequence[TensorType | None]) -> TensorType:
    x = needed(inputs)
    if len(x.shape) != 4:
        raise OpTypeError(f"pooling in two dims takes x [N,C,H,W], found {x}")
    return x


def _pool_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = _image(inputs)
    over = windows(x.shape[2:], per_dim(settings, "kernel", 2), settings)
    if not all(window.always_reads for window in over):
        raise OpTypeError("a window reads nothing but padding: padding must be less than the window")
    return (TensorType(x.dtype, (*x.shape[:2], *(window.positions for window in over))),)


def _global_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    x = needed(inputs)
    if len(x.shape) < 3 or 0 in x.shape[2:]:
        raise OpTypeError(f"global pooling takes x [N,C,...] with elements to pool, found {x}")
    return (TensorType(x.dtype, (*x.shape[:2], *(1 for _ in x.shape[2:]))),)


def _over_image(reduction: str) -> Composite:
    def decompose(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
        del settings
        x = next(value for value in inputs if value is not None)
        axes = tuple(range(2, len(steps.type_of(x).shape)))
        return (steps.op(reduction, x, axes=axes, keepdims=True),)

    return Composite(decompose)


def _pooling(
    name: str,
    dtypes: frozenset[str],
    infer: InferTypes,
    definition: Definition,
    settings: tuple[SettingSpec, ...],
    summary: str,
    onnx: str,
) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x", doc="[N, C, H, W]"),),
        dtypes=dtypes,
        settings=settings,
        infer=infer,
        definition=definition,
        in_place=True,
        onnx=onnx,
    )


MAX_POOL2D = _pooling(
    "max_pool2d",
    FLOATS | INTEGERS,
    _pool_types,
    Primitive(),
    (KERNEL, STRIDE, PADDING, DILATION, CEIL_MODE),
    "greatest element of each window; padding never wins",
    "MaxPool",
)
AVG_POOL2D = _pooling(
    "avg_pool2d",
    FLOATS,
    _pool_types,
    Primitive(),
    (
        KERNEL,
        STRIDE,
        PADDING,
        CEIL_MODE,
        SettingSpec(
            name="count_include_pad",
            type=SettingType.BOOL,
            default=False,
            doc="whether padding counts as zeros",
        ),
    ),
    "mean of each window, over the elements of the image in it",
    "AveragePool",
)
GLOBAL_AVG_POOL = _pooling(
    "global_avg_pool",
    FLOATS,
    _global_types,
    _over_image("mean_axis"),
    (),
    "mean of each channel",
    "GlobalAveragePool",
)
GLOBAL_MAX_POOL = _pooling(
    "global_max_pool",
    FLOATS | INTEGERS,
    _global_types,
    _over_image("max_axis"),
    (),
    "greatest element of each channel",
    "GlobalMaxPool",
)
