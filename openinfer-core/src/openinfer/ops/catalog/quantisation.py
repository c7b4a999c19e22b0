"""Between real numbers and the small integers that stand for them: real = scale * (stored - zero point)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import F32, F64, U8
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.mixed_floats import cast_to, widest
from openinfer.ops.schema import (
    Composite,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    OpTypeError,
    SettingSpec,
    SettingType,
    StoredScales,
)
from openinfer.ops.shapes import axis_of, integer, needed, optional, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import Decomposer

    Settings = Mapping[str, SettingValue]

CATEGORY = "quantisation"
QUANTISED = frozenset({"i2", "i4", "i8", "i16", "u2", "u4", "u8", "u16"})
"""What reals are quantised to with a zero point."""

STORED = QUANTISED | {"i1", "i32", "u1", "u32", "t1", "t2"}
"""What reals are recovered from."""

_F8_LARGEST = 57344.0

AXIS = SettingSpec(name="axis", type=SettingType.INT, default=1, doc="dim that scales go along, negative from the end")
BLOCK_SIZE = SettingSpec(
    name="block_size",
    type=SettingType.INT,
    default=0,
    doc="elements along the axis that share a scale; 0: one scale for the tensor, or for each index of the axis",
)


def scales_shape(shape: tuple[int, ...], axis: int, block: int) -> tuple[int, ...]:
    """Return the shape of scales that go along an axis: one per index, or with ``block`` one per block of elements."""
    if not block:
        return (shape[axis],)
    blocks = shape[axis] // block if surely(lambda: shape[axis] % block == 0) else -(-shape[axis] // block)
    return (*shape[:axis], blocks, *shape[axis + 1 :])


def check_scales(
    x: TensorType, scale: TensorType, zero_point: TensorType | None, axis: SettingValue, block: SettingValue
) -> None:
    """Check that scales and zero points fit a quantised tensor.

    Raises:
        OpTypeError: a shape does not fit, or the zero point has another element type than the tensor.
    """
    size = integer(block, "block_size")
    if size < 0:
        raise OpTypeError(
            f"block_size is {size}: it is a number of elements, or 0 for none",
            code="setting-type",
            settings=("block_size",),
        )
    if size or scale.shape:
        place = axis_of(integer(axis, "axis"), len(x.shape))
        wanted = scales_shape(x.shape, place, size)
        if scale.shape != wanted:
            blocks = f" in blocks of {size}" if size else ""
            one = "" if size else ", or [] for one scale"
            raise OpTypeError(
                f"scale is {scale}; for {x} along axis {place}{blocks} it has shape {shown(wanted)}{one}",
                settings=("block_size", "group_size") if size else (),
            )
    if zero_point is None:
        return
    if zero_point.dtype is not x.dtype:
        raise OpTypeError(
            f"zero_point is {zero_point}, expected the quantised type {x.dtype}", code="dtype-unsupported"
        )
    if zero_point.shape != scale.shape:
        raise OpTypeError(f"zero_point is {zero_point}, expected the shape of scale: {shown(scale.shape)}")


def needed_scale(op: str, of: str, inputs: Sequence[TensorType | None], position: int) -> TensorType:
    """Return the type of the scale.

    Raises:
        OpTypeError: ``arity``, neither the call nor the model gives it.
    """
    scale = optional(inputs, position)
    if scale is None:
        message = f"needs `scale`: {of} is not a constant with a quant payload in the model"
        raise OpTypeError(message, of=op, code="arity")
    return scale


def _quantize_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    x, scale, zero_point = needed(inputs), needed(inputs, 1), optional(inputs, 2)
    dtype = declared[0].dtype if declared else U8 if zero_point is None else zero_point.dtype
    if dtype.name not in QUANTISED | {"f8"}:
        legal = ", ".join(sorted(QUANTISED | {"f8"}))
        raise OpTypeError(f"yields no {dtype}; legal: {legal}", of="quantize_linear", code="dtype-unsupported")
    if dtype.is_float and zero_point is not None:
        raise OpTypeError(f"to {dtype} takes no zero_point", of="quantize_linear", code="dtype-unsupported")
    found = TensorType(dtype, x.shape)
    check_scales(found, scale, zero_point, settings.get("axis"), settings.get("block_size"))
    return (found,)


def _dequantize_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    x, zero_point = needed(inputs), optional(inputs, 2)
    scale = needed_scale("dequantize_linear", "x", inputs, 1)
    check_scales(x, scale, zero_point, settings.get("axis"), settings.get("block_size"))
    dtype = declared[0].dtype if declared else scale.dtype
    if not dtype.is_float:
        raise OpTypeError(f"yields a float, found {dtype}", of="dequantize_linear", code="dtype-unsupported")
    return (TensorType(dtype, x.shape),)


def _dynamic_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    return (TensorType(U8, needed(inputs).shape), TensorType(F32), TensorType(U8))


def _blocked(shape: tuple[int, ...], settings: Settings) -> tuple[int, ...]:
    """Return a shape with its axis split in blocks and their elements, or as it is where blocks do not divide it."""
    axis, block = _place(shape, settings)
    if not block or shape[axis] % block:
        return shape
    return (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])


def _place(shape: tuple[int, ...], settings: Settings) -> tuple[int, int]:
    block = integer(settings.get("block_size"), "block_size")
    return integer(settings.get("axis"), "axis") % max(len(shape), 1), block


def _spread(steps: Decomposer, value: int, shape: tuple[int, ...], settings: Settings) -> int:
    """Return scales or zero points in a shape that broadcasts against the `_blocked` ``shape``."""
    if not steps.type_of(value).shape:
        return value
    axis, block = _place(shape, settings)
    if not block:
        return steps.reshape(value, tuple(dim if p == axis else 1 for p, dim in enumerate(shape)))
    if shape[axis] % block == 0:
        own = steps.type_of(value).shape
        return steps.reshape(value, (*own[: axis + 1], 1, *own[axis + 1 :]))
    repeated = steps.op("repeat", value, axis=axis, count=block)
    return steps.op("narrow", repeated, axis=axis, start=0, length=shape[axis])


def _shaped(steps: Decomposer, value: int, shape: tuple[int, ...]) -> int:
    return value if steps.type_of(value).shape == shape else steps.reshape(value, shape)


def _quantize(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x, scale, zero_point = _given(inputs)
    kind, out = steps.type_of(x), steps.outputs[0].dtype
    if not kind.count:
        return (cast_to(steps, x, out),)
    wide = widest([kind.dtype, steps.type_of(scale).dtype])
    split = _shaped(steps, cast_to(steps, x, wide), _blocked(kind.shape, settings))
    divisor = _spread(steps, cast_to(steps, scale, wide), kind.shape, settings)
    value = steps.op("div", split, divisor)
    if out.is_float:
        value = steps.op("clamp", value, min=-_F8_LARGEST, max=_F8_LARGEST)
    else:
        value = steps.op("round", value, mode="half_even")
    if zero_point is not None:
        value = steps.op("add", value, _spread(steps, cast_to(steps, zero_point, wide), kind.shape, settings))
    return (_shaped(steps, cast_to(steps, value, out), kind.shape),)


def _dequantize(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    x, scale, zero_point = _given(inputs)
    kind, out = steps.type_of(x), steps.outputs[0].dtype
    if not kind.count:
        return (cast_to(steps, x, out),)
    # f32 holds no difference of 32-bit integers.
    wide = F64 if kind.dtype.bits == 32 else widest([steps.type_of(scale).dtype, out])
    value = _shaped(steps, cast_to(steps, x, wide), _blocked(kind.shape, settings))
    if zero_point is not None:
        value = steps.op("sub", value, _spread(steps, cast_to(steps, zero_point, wide), kind.shape, settings))
    factor = _spread(steps, cast_to(steps, scale, wide), kind.shape, settings)
    return (_shaped(steps, cast_to(steps, steps.op("mul", value, factor), out), kind.shape),)


def _given(inputs: Sequence[int | None]) -> tuple[int, int, int | None]:
    """Return the first two inputs, which are required, and the third."""
    first, second = (value for value in inputs[:2] if value is not None)
    return first, second, inputs[2] if len(inputs) > 2 else None


def _dynamic(steps: Decomposer, inputs: Sequence[int | None], settings: Settings) -> tuple[int, ...]:
    del settings
    x = next(value for value in inputs if value is not None)
    wide = cast_to(steps, x, F32)
    # The sum of no elements is 0, which is what both ends of the range are then.
    if steps.type_of(x).count:
        ends = tuple(steps.op(name, wide, nan="propagate") for name in ("min_axis", "max_axis"))
    else:
        ends = (steps.op("sum_axis", wide),) * 2
    low = steps.op("clamp", ends[0], max=0.0)
    high = steps.op("clamp", ends[1], min=0.0)
    steps_of_range = steps.op("fill", low, value=255.0)
    extent = steps.op("sub", high, low)
    empty = steps.op("eq", extent, steps.op("fill", low, value=0.0))
    # The scale of zeros alone is 1, as ONNX Runtime computes it.
    scale = steps.op("div", steps.op("where", empty, steps_of_range, extent), steps_of_range)
    zero = steps.op("round", steps.op("div", steps.op("neg", low), scale), mode="half_even")
    zero_point = steps.op("cast", zero, to=U8)
    return steps.op("quantize_linear", wide, scale, zero_point), scale, zero_point


def _each(shape: tuple[int, ...], dtypes: frozenset[str], *, zero: bool = True) -> tuple[OpExample, ...]:
    """Return examples of quantising to each type."""
    return tuple(
        OpExample(
            inputs=(Operand(shape=shape), Operand(shape=shape[1:2]), *_zero(dtype, shape[1:2], given=zero)),
            outputs=(Operand(shape=shape, dtype=dtype),),
        )
        for dtype in sorted(dtypes)
    )


def _zero(dtype: str, shape: tuple[int, ...], *, given: bool) -> tuple[Operand | None, ...]:
    return (Operand(shape=shape, dtype=dtype),) if given else ()


QUANTIZE_LINEAR = OpSchema(
    name="quantize_linear",
    summary="x / scale rounded half to even, plus zero_point, clipped to the type of the output; f8: rounded, clipped",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="reals"),
        InputSpec(name="scale", dtypes=FLOATS, doc="[], [dim of axis], or with block_size x's with ceil(dim / it)"),
        InputSpec(
            name="zero_point", dtypes=QUANTISED, optional=True, doc="of the output's type, in the shape of scale"
        ),
    ),
    dtypes=FLOATS,
    settings=(AXIS, BLOCK_SIZE),
    infer=_quantize_types,
    definition=Composite(_quantize),
    in_place=True,
    onnx="QuantizeLinear",
    examples=(
        *_each((3, 5), QUANTISED),
        *_each((3, 5), frozenset({"f8", "u4"}), zero=False),
        OpExample(inputs=(Operand(shape=(7,)), Operand(shape=())), outputs=(Operand(shape=(7,), dtype="i8"),)),
        OpExample(inputs=(Operand(shape=()), Operand(shape=())), outputs=(Operand(shape=(), dtype="i4"),)),
        OpExample(
            inputs=(Operand(shape=(0, 3)), Operand(shape=(3,), dtype="f32")),
            outputs=(Operand(shape=(0, 3), dtype="u8"),),
        ),
        OpExample(
            inputs=(Operand(shape=(3, 6)), Operand(shape=(3, 2)), Operand(shape=(3, 2), dtype="i8")),
            settings={"block_size": 3},
            outputs=(Operand(shape=(3, 6), dtype="i8"),),
        ),
        OpExample(
            inputs=(Operand(shape=(5, 3)), Operand(shape=(3, 3)), Operand(shape=(3, 3), dtype="i4")),
            settings={"axis": -2, "block_size": 2},
            outputs=(Operand(shape=(5, 3), dtype="i4"),),
        ),
    ),
)
DEQUANTIZE_LINEAR = OpSchema(
    name="dequantize_linear",
    summary="(x - zero_point) * scale, computed in at least f32 (32-bit integers: f64) and rounded once to the output",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="stored integers"),
        InputSpec(
            name="scale",
            dtypes=FLOATS,
            optional=True,
            doc="[], [dim of axis], or with block_size x's with ceil(dim / it); x's quant payload has it too",
        ),
        InputSpec(name="zero_point", dtypes=STORED, optional=True, doc="of x's type, in the shape of scale"),
    ),
    dtypes=STORED | {"f8"},
    settings=(AXIS, BLOCK_SIZE),
    infer=_dequantize_types,
    definition=Composite(_dequantize),
    in_place=True,
    onnx="DequantizeLinear",
    stored_scales=StoredScales(of="x", sets_axis="axis"),
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5,), dtype="f32"), Operand(shape=(5,))), dtypes=STORED),
        OpExample(
            inputs=(Operand(shape=(3, 5)), Operand(shape=(3,), dtype="f16")),
            settings={"axis": 0},
            outputs=(Operand(shape=(3, 5), dtype="f32"),),
        ),
        OpExample(
            inputs=(Operand(shape=(9,)), Operand(shape=(), dtype="f64"), Operand(shape=())),
            outputs=(Operand(shape=(9,), dtype="bf16"),),
            dtypes=STORED,
        ),
        OpExample(inputs=(Operand(shape=()), Operand(shape=(), dtype="bf16"))),
        OpExample(inputs=(Operand(shape=(0, 3)), Operand(shape=(3,), dtype="f32"))),
        OpExample(
            inputs=(Operand(shape=(3, 6)), Operand(shape=(3, 2), dtype="f32"), Operand(shape=(3, 2))),
            settings={"block_size": 3},
            dtypes=STORED,
        ),
        OpExample(
            inputs=(Operand(shape=(5, 3)), Operand(shape=(3, 3), dtype="f32")),
            settings={"axis": -2, "block_size": 2},
        ),
    ),
)
DYNAMIC_QUANTIZE_LINEAR = OpSchema(
    name="dynamic_quantize_linear",
    summary="x as u8 by its own range, 0 included: scale = (max - min) / 255, or 1 where every x is 0",
    category=CATEGORY,
    inputs=(InputSpec(name="x", doc="reals, computed in f32"),),
    outputs=("y", "scale", "zero_point"),
    dtypes=FLOATS,
    infer=_dynamic_types,
    definition=Composite(_dynamic),
    onnx="DynamicQuantizeLinear",
    examples=tuple(OpExample(inputs=(Operand(shape=shape),)) for shape in ((3, 5), (), (0,))),
)
