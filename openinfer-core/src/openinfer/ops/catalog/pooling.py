"""Pooling of images and rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dims import length, surely
from openinfer.dtypes import I32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.calls import compute_type
from openinfer.ops.dtype_sets import FLOATS, INTEGERS
from openinfer.ops.lifting import lifted, lifted_settings
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
from openinfer.ops.shapes import needed
from openinfer.ops.windows import CEIL_MODE, DILATION, KERNEL, PADDING, STRIDE, per_dim, windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Builder, Value
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Decomposer, Definition, InferTypes
    from openinfer.ops.windows import Window

    Settings = Mapping[str, SettingValue]

CATEGORY = "pooling"


def _pool_types(rank: int) -> InferTypes:
    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        del declared
        x = needed(inputs)
        if len(x.shape) != rank + 2:
            taken = "two dims takes x [N,C,H,W]" if rank == 2 else "one dim takes x [N,C,L]"
            raise OpTypeError(f"pooling in {taken}, found {x}")
        over = windows(x.shape[2:], per_dim(settings, "kernel", rank), settings)
        if not all(window.always_reads for window in over):
            raise OpTypeError(
                "a window reads nothing but padding: padding must be less than the window", settings=("padding",)
            )
        return (TensorType(x.dtype, (*x.shape[:2], *(window.positions for window in over))),)

    return infer


def _windows(call: OpCall) -> tuple[Window, ...]:
    image = needed(call.inputs).shape[2:]
    return windows(image, per_dim(call.settings, "kernel", len(image)), call.settings)


def _max_pool(k: Builder, call: OpCall) -> None:
    """The greatest element of each window; a NaN, as padding, wins only over nothing else."""
    (x,), (y,), over = k.given, k.outputs, _windows(call)
    least = math.nan if x.dtype.minimum is None else x.dtype.minimum
    at, taps = k.axes(*y.shape), k.axes(*(length(window.reading) for window in over))
    element = x.within(*at[:2], *_places(over, at[2:], taps), fill=least).cast(compute_type(x.dtype))
    y[at] = k.fold(element, taps, tree.maximum, start=least)


def _avg_pool(k: Builder, call: OpCall) -> None:
    (x,), (y,), over = k.given, k.outputs, _windows(call)
    total = compute_type(x.dtype)
    at, taps = k.axes(*y.shape), k.axes(*(length(window.reading) for window in over))
    element = x.within(*at[:2], *_places(over, at[2:], taps), fill=0).cast(total)
    padded = bool(call.settings.get("count_include_pad"))
    largest = math.prod(window.kernel + window.before + window.size + window.after for window in over)
    dtype = I32 if surely(lambda: largest < 1 << 31) else I64
    counts = [_counted(k, window, position, padded, dtype) for window, position in zip(over, at[2:], strict=True)]
    y[at] = k.sum(element, taps) / math.prod(counts[1:], start=counts[0]).cast(total)


def _places(over: Sequence[Window], at: Sequence[Var], taps: Sequence[Var]) -> list[Index]:
    """Return the places of the image that taps read; those that never reach it have no part in the loops."""
    positions = zip(over, at, taps, strict=True)
    return [window.place(position, tap + window.reading.start) for window, position, tap in positions]


def _counted(k: Builder, window: Window, position: Var, padded: bool, dtype: DType) -> Value:
    """Return how many taps of a window without dilation are in the image, or (``padded``) in it and its padding."""
    low, high = (0, window.after) if padded else (window.before, 0)
    high += window.before + window.size
    start = position * window.stride
    first, last = k.position(start, dtype), k.position(start + window.kernel, dtype)
    is_low = surely(lambda: low == 0)
    if not is_low:
        first = k.apply(tree.maximum, first, k.constant(low, dtype))
    if not surely(lambda: (window.positions - 1) * window.stride + window.kernel <= high):
        last = k.apply(tree.minimum, last, k.constant(high, dtype))
    elif is_low:
        return k.constant(window.kernel, dtype)
    return last - first


def _of_rows(pool: str) -> Composite:
    def decompose(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
        x = next(value for value in inputs if value is not None)
        image = steps.reshape(x, lifted(steps.type_of(x)).shape)
        found = steps.op(pool, image, **lifted_settings(settings))
        shape = steps.type_of(found).shape
        return (steps.reshape(found, (*shape[:2], shape[3])),)

    return Composite(decompose)


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
    examples: tuple[OpExample, ...],
    x: str = "[N, C, H, W]",
) -> OpSchema:
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x", doc=x),),
        dtypes=dtypes,
        settings=settings,
        infer=infer,
        definition=definition,
        in_place=True,
        onnx=onnx,
        examples=examples,
    )


def _example(*shape: int, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(Operand(shape=shape),), settings=settings)


_INCLUDE = SettingSpec(
    name="count_include_pad", type=SettingType.BOOL, default=False, doc="whether padding counts as zeros"
)
_IMAGES = (
    _example(1, 2, 5, 7, kernel=2),
    _example(2, 3, 7, 5, kernel=(3, 2), stride=2, padding=(1, 0, 1, 1)),
    _example(1, 1, 6, 6, kernel=3, stride=2, ceil_mode=True),
    _example(1, 1, 5, 5, kernel=2, stride=2, padding="same_upper"),
    _example(0, 2, 4, 4, kernel=2),
)
_ROWS = (
    _example(2, 3, 9, kernel=3),
    _example(1, 2, 8, kernel=(3,), stride=2, padding=(1, 0), ceil_mode=True),
    _example(1, 1, 7, kernel=2, stride=(2,), padding="same_lower"),
)


MAX_POOL2D = _pooling(
    "max_pool2d",
    FLOATS | INTEGERS,
    _pool_types(2),
    Compute(_max_pool),
    (KERNEL, STRIDE, PADDING, DILATION, CEIL_MODE),
    "greatest element of each window; padding never wins",
    "MaxPool",
    (*_IMAGES, _example(1, 2, 7, 7, kernel=2, dilation=(2, 3))),
)
AVG_POOL2D = _pooling(
    "avg_pool2d",
    FLOATS,
    _pool_types(2),
    Compute(_avg_pool),
    (KERNEL, STRIDE, PADDING, CEIL_MODE, _INCLUDE),
    "mean of each window, over the elements of the image in it",
    "AveragePool",
    (*_IMAGES, _example(1, 2, 5, 5, kernel=3, padding=1, stride=2, count_include_pad=True)),
)
MAX_POOL1D = _pooling(
    "max_pool1d",
    FLOATS | INTEGERS,
    _pool_types(1),
    _of_rows("max_pool2d"),
    (KERNEL, STRIDE, PADDING, DILATION, CEIL_MODE),
    "greatest element of each window; padding never wins",
    "MaxPool",
    (*_ROWS, _example(1, 2, 9, kernel=2, dilation=3)),
    "[N, C, L]",
)
AVG_POOL1D = _pooling(
    "avg_pool1d",
    FLOATS,
    _pool_types(1),
    _of_rows("avg_pool2d"),
    (KERNEL, STRIDE, PADDING, CEIL_MODE, _INCLUDE),
    "mean of each window, over the elements of the row in it",
    "AveragePool",
    (*_ROWS, _example(1, 2, 5, kernel=3, padding=1, stride=2, count_include_pad=True)),
    "[N, C, L]",
)
GLOBAL_AVG_POOL = _pooling(
    "global_avg_pool",
    FLOATS,
    _global_types,
    _over_image("mean_axis"),
    (),
    "mean of each channel",
    "GlobalAveragePool",
    (_example(2, 3, 5, 7), _example(1, 2, 9), _example(1, 1, 2, 3, 4)),
)
GLOBAL_MAX_POOL = _pooling(
    "global_max_pool",
    FLOATS | INTEGERS,
    _global_types,
    _over_image("max_axis"),
    (),
    "greatest element of each channel",
    "GlobalMaxPool",
    (_example(2, 3, 5, 7), _example(1, 2, 9), _example(1, 1, 2, 3, 4)),
)
