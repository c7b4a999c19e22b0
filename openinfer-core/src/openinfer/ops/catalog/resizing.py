"""Images of other sizes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from openinfer.dims import Dim, NeedsNumberError, sources, surely
from openinfer.dtypes import F32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY, FLOATS
from openinfer.ops.elementwise import work_type
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
from openinfer.ops.shapes import integers, needed
from openinfer.scalars import round_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall

    Settings = Mapping[str, SettingValue]


EXACT_IN_F32 = 1 << 24
"""Up to here every integer is exact in f32."""

MOST_SCALE = 1 << 10
"""Largest numerator of a scale by which sizes are multiplied: images of 16,384 rows have exact products."""


def nearest(size: int, result: int) -> list[int]:
    """Return the place that each place of the result takes its element from: floor(place * size / result)."""
    return [place * size // result for place in range(result)]


def neighbours(size: int, result: int) -> list[tuple[int, int, float]]:
    """Return for each place of the result the two places that it lies between, and its distance from the first.

    It lies at (place + 1/2) * size / result - 1/2, moved to between the first place and the last. Quotients of
    integers decide which places these are, so that no rounding does.
    """
    rows: list[tuple[int, int, float]] = []
    for place in range(result):
        position = min(max((2 * place + 1) * size - result, 0), (size - 1) * 2 * result)
        low, rest = divmod(position, 2 * result)
        rows.append((low, min(low + 1, size - 1), rest / (2 * result)))
    return rows


def scaled(size: int, factor: float) -> float:
    """Return f32(size * f32(factor)), which is rounded down to the length of an axis, as in ONNX Runtime.

    The product of two f32 is exact in f64, so that it is rounded once: 0.29 times 100 places are 29.

    Raises:
        OpTypeError: the product is not finite in f32.
    """
    product = round_to(F32, round_to(F32, size) * round_to(F32, factor))
    if not math.isfinite(product):
        raise OpTypeError(f"{size} times {factor:g} is more than an f32 holds", settings=("scale",))
    return product


def _resize_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    x = needed(inputs)
    if len(x.shape) != 4:
        raise OpTypeError(f"takes x [N,C,H,W], found {x}", of="resize2d")
    if settings.get("mode") == "linear" and x.dtype.name not in FLOATS:
        raise OpTypeError(
            f"in mode linear takes floats, found {x}", of="resize2d", code="dtype-unsupported", settings=("mode",)
        )
    rows, columns = _size(x, settings)
    if min(rows, columns) < 0 or (0 in x.shape[2:] and rows * columns):
        raise OpTypeError(f"an image {x} has no size [{rows},{columns}]", settings=("size", "scale"))
    return (TensorType(x.dtype, (*x.shape[:2], rows, columns)),)


def _size(x: TensorType, settings: Settings) -> tuple[int, int]:
    size, scale = settings.get("size"), settings.get("scale")
    if (size is None) == (scale is None):
        raise OpTypeError(
            "takes size or scale, and not both", of="resize2d", code="setting-type", settings=("size", "scale")
        )
    if size is not None:
        given = integers(size, "size")
        if len(given) != 2:
            raise OpTypeError(
                f"setting 'size' takes rows and columns, found {list(given)}", code="setting-type", settings=("size",)
            )
        return given[0], given[1]
    factors = scale if isinstance(scale, tuple) else (scale, scale)
    numbers = [float(f) for f in factors if isinstance(f, int | float) and math.isfinite(f) and f > 0]
    if len(numbers) != 2 or len(factors) != 2:
        raise OpTypeError(
            f"setting 'scale' takes one or two numbers above 0, found {scale}", code="setting-type", settings=("scale",)
        )
    return _length(x.shape[2], numbers[0]), _length(x.shape[3], numbers[1])


def _length(size: int, factor: float) -> int:
    """Return the length of a resized axis. Of a size that is known at run time only, the product has to be exact.

    Raises:
        NeedsNumberError: the scale has so many bits that hardly any product is exact.
        OpTypeError: the size is so large that its product is not.
    """
    if not isinstance(size, Dim):
        return math.floor(scaled(size, factor))
    ratio = Fraction(round_to(F32, factor))
    if ratio.numerator > MOST_SCALE:
        raise NeedsNumberError(f"`{size}` times {factor:g} is rounded to f32", sizes=sources(size.index))
    if size * ratio.numerator > EXACT_IN_F32:
        raise OpTypeError(f"{size} times {factor:g} has more bits than an f32", settings=("scale",))
    return size * ratio.numerator // ratio.denominator


def _resize(k: Builder, call: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    (rows, columns), (high, wide) = needed(call.inputs).shape[2:], call.outputs[0].shape[2:]
    n, c, p, q = k.axes(*y.shape)
    if surely(lambda: high == 0) or surely(lambda: wide == 0):
        y[n, c, p, q] = k.constant(0, work_type(y.dtype))
    elif call.settings.get("mode") == "nearest":
        y[n, c, p, q] = x[n, c, p * rows // high, q * columns // wide]
    else:
        kind = work_type(x.dtype)
        above, below, down = _between(k, p, rows, high, kind)
        left, right, across = _between(k, q, columns, wide, kind)
        first, second = (
            x[n, c, above, column].cast(kind) * (1 - down) + x[n, c, below, column].cast(kind) * down
            for column in (left, right)
        )
        y[n, c, p, q] = first * (1 - across) + second * across


def _between(k: Builder, place: Var, size: int, result: int, kind: DType) -> tuple[Var, Var, Value]:
    """Return the two places of an axis of ``size`` that a place of the result lies between, and its distance from the
    first, from tables that are computed once, in integers as `neighbours` has them."""
    places, share = [k.temporary(I64, result) for _ in "ab"], k.temporary(kind, result)
    rows, double = k.constant(size, I64), k.constant(2 * result, I64)
    position = k.apply(tree.maximum, (k.position(place) * 2 + 1) * rows - k.constant(result, I64), k.constant(0, I64))
    position = k.apply(tree.minimum, position, k.constant((size - 1) * 2 * result, I64))
    low = position / double
    places[0][place] = low
    places[1][place] = k.apply(tree.minimum, low + 1, k.constant(size - 1, I64))
    share[place] = (position - low * double).cast(kind) / k.constant(2 * result, kind)
    first, second = (k.lookup(table[place], size, "places lie in the image") for table in places)
    return first, second, share[place]


def _example(*shape: int, dtypes: frozenset[str] | None = None, **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(Operand(shape=shape),), settings=settings, dtypes=dtypes)


RESIZE2D = OpSchema(
    name="resize2d",
    summary="x [N,C,H,W] with other rows and columns, from the nearest place before or between the two around it",
    category="pooling",
    inputs=(InputSpec(name="x", doc="[N, C, H, W]"),),
    dtypes=EVERY,
    settings=(
        SettingSpec(name="size", type=SettingType.INT_LIST, default=None, doc="rows and columns of the result"),
        SettingSpec(
            name="scale",
            type=SettingType.FLOAT_OR_LIST,
            default=None,
            doc="factor of rows and columns, or one for each; sizes are floor(f32(size * f32(factor)))",
        ),
        SettingSpec(
            name="mode",
            type=SettingType.STR,
            default="nearest",
            choices=("nearest", "linear"),
            doc="nearest: floor(place * in / out); linear (floats): at (place + 1/2) * in / out - 1/2",
        ),
    ),
    infer=_resize_types,
    definition=Compute(_resize),
    in_place=True,
    onnx="Resize",
    examples=(
        _example(1, 2, 3, 5, size=(7, 4)),
        _example(2, 1, 4, 4, scale=(0.5, 2.0)),
        _example(1, 2, 3, 5, scale=2.0, mode="linear", dtypes=FLOATS),
        _example(1, 2, 7, 5, size=(3, 8), mode="linear", dtypes=FLOATS),
        _example(1, 1, 1, 1, size=(3, 2), mode="linear", dtypes=FLOATS),
        _example(0, 2, 3, 5, scale=2.0),
    ),
)
