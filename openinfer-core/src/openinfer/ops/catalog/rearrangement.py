"""Data movement that a view describes: cutting, repeating and reordering, by rules that kernels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from openinfer import dims
from openinfer.ir.types import TensorType
from openinfer.ops.dtype_sets import EVERY
from openinfer.ops.moving import move
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
from openinfer.ops.shapes import axes_of, axis_of, broadcast, integer, integers, needed, shown
from openinfer.ops.views import Moved, View, ViewDim, cut, in_dims, same_order, whole

if TYPE_CHECKING:
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import InferTypes

Settings: TypeAlias = "Mapping[str, SettingValue]"
Rule: TypeAlias = "Callable[[TensorType, Settings, Sequence[TensorType]], tuple[Moved, ...]]"

CATEGORY = "movement"

RULES: dict[str, Rule] = {}
"""How each operator of this module moves elements: one view per output, from the input, the settings, and the types of
the outputs as far as they are known."""


def moved_by(call: OpCall) -> tuple[Moved, ...]:
    """Return how a call of an operator of this module moves elements, one view per output."""
    return RULES[call.op](needed(call.inputs), call.settings, call.outputs)


def _move(k: Builder, call: OpCall) -> None:
    (x,) = k.given
    for y, moved in zip(k.outputs, moved_by(call), strict=False):
        move(k, x, y, moved)


def _typed(rule: Rule) -> InferTypes:
    def infer(
        inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
    ) -> tuple[TensorType, ...]:
        x = needed(inputs)
        return tuple(TensorType(x.dtype, moved.shape) for moved in rule(x, settings, declared))

    return infer


def _rearrangement(
    name: str,
    rule: Rule,
    *settings: SettingSpec,
    summary: str,
    examples: tuple[OpExample, ...],
    onnx: str | None,
    aliases: tuple[str, ...] = (),
    several: bool = False,
) -> OpSchema:
    RULES[name] = rule
    return OpSchema(
        name=name,
        summary=summary,
        category=CATEGORY,
        inputs=(InputSpec(name="x"),),
        dtypes=EVERY,
        settings=settings,
        infer=_typed(rule),
        definition=Compute(_move),
        variadic_outputs=several,
        in_place=True,
        aliases=aliases,
        onnx=onnx,
        examples=examples,
    )


def _list(name: str, doc: str, *aliases: str) -> SettingSpec:
    return SettingSpec(name=name, type=SettingType.INT_LIST, aliases=aliases, doc=doc)


def _optional_list(name: str, doc: str) -> SettingSpec:
    return SettingSpec(name=name, type=SettingType.INT_LIST, default=None, doc=doc)


def _int(name: str, doc: str, default: int | None = None) -> SettingSpec:
    if default is None:
        return SettingSpec(name=name, type=SettingType.INT, doc=doc)
    return SettingSpec(name=name, type=SettingType.INT, default=default, doc=doc)


def _example(*shape: int, outputs: tuple[Operand, ...] = (), **settings: SettingValue) -> OpExample:
    return OpExample(inputs=(Operand(shape=shape),), settings=settings, outputs=outputs)


def _squeezed(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    if settings.get("axes") is None:
        axes = tuple(axis for axis, extent in enumerate(x.shape) if extent == 1)
    else:
        axes = _axes(settings, len(x.shape))
    wide = [axis for axis in axes if x.shape[axis] != 1]
    if wide:
        raise OpTypeError(
            f"dim {wide[0]} of {x} is {x.shape[wide[0]]}: only a dim of 1 can be squeezed", settings=("axes",)
        )
    return (same_order(x.shape, [extent for axis, extent in enumerate(x.shape) if axis not in axes]),)


def _unsqueezed(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    rank = len(x.shape) + len(integers(settings.get("axes"), "axes"))
    axes, extents = _axes(settings, rank), iter(x.shape)
    return (same_order(x.shape, [1 if axis in axes else next(extents) for axis in range(rank)]),)


def _axes(settings: Settings, rank: int) -> tuple[int, ...]:
    """Return the setting ``axes``, in which an empty list means none."""
    given = settings.get("axes")
    return () if given == () else axes_of(given, rank)


def _expanded(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    given = settings.get("shape")
    if given is None and not declared:
        raise OpTypeError(
            "without the setting 'shape' takes the shape of its output, which is not known here", of="expand"
        )
    wanted = declared[0].shape if given is None else integers(given, "shape")
    if any(extent < 0 for extent in wanted):
        raise OpTypeError(f"shape {shown(wanted)} has a dim below 0", code="setting-type", settings=("shape",))
    try:
        shape = broadcast(x.shape, wanted)
    except OpTypeError as error:
        raise OpTypeError(str(error), settings=("shape",)) from error
    missing = len(shape) - len(x.shape)
    own = zip(x.shape, shape[missing:], strict=True)
    repeated = (ViewDim(extent) for extent in shape[:missing])
    stretched = (_stretched(axis, extent, whole) for axis, (extent, whole) in enumerate(own))
    return (in_dims(len(x.shape), (*repeated, *stretched)),)


def _stretched(axis: int, extent: int, whole: int) -> ViewDim:
    """Return a dim of a tensor that is broadcast to ``whole`` places."""
    if dims.surely(lambda: extent == whole):
        return ViewDim(whole, axis)
    step = dims.stride_of(extent)
    return ViewDim(whole) if dims.surely(lambda: step == 0) else ViewDim(whole, axis, step)


def _sliced(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    starts, ends = integers(settings.get("starts"), "starts"), integers(settings.get("ends"), "ends")
    steps = tuple(1 for _ in starts) if settings.get("steps") is None else integers(settings.get("steps"), "steps")
    named = range(len(starts)) if settings.get("axes") is None else integers(settings.get("axes"), "axes")
    if not len(starts) == len(ends) == len(steps) == len(named):
        raise OpTypeError(
            f"takes as many ends, axes and steps as starts: {len(starts)} starts, {len(ends)} ends, "
            f"{len(named)} axes, {len(steps)} steps",
            of="slice",
            code="setting-type",
            settings=("starts", "ends", "axes", "steps"),
        )
    if 0 in steps:
        raise OpTypeError(f"steps {shown(steps)} have a 0", code="setting-type", settings=("steps",))
    axes = [axis_of(axis, len(x.shape), "axes:", setting="axes") for axis in named]
    if len(set(axes)) < len(axes):
        raise OpTypeError(f"axes {shown(named)} name one dim twice (rank {len(x.shape)})", settings=("axes",))
    bounds = zip(axes, starts, ends, steps, strict=True)
    ranges = [dims.range(*dims.slice(start, end, step).indices(x.shape[axis])) for axis, start, end, step in bounds]
    return (cut(x.shape, axes, ranges),)


def _narrowed(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    start, length = integer(settings.get("start"), "start"), integer(settings.get("length"), "length")
    extent = x.shape[axis]
    first = dims.from_end(start, extent)
    if length < 0 or first < 0 or first + length > extent:
        raise OpTypeError(
            f"{length} elements from {start} on do not lie in dim {axis} of {x}", settings=("start", "length")
        )
    return (cut(x.shape, [axis], [dims.range(first, first + length)]),)


def _selected(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    index, extent = integer(settings.get("index"), "index"), x.shape[axis]
    if not -extent <= index < extent:
        raise OpTypeError(f"index {index} is out of range for dim {axis} of {x}", settings=("index",))
    place = dims.from_end(index, extent)
    row = cut(x.shape, [axis], [dims.range(place, place + 1)])
    return (Moved((*x.shape[:axis], *x.shape[axis + 1 :]), row.view),)


def _flipped(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    axes = _axes(settings, len(x.shape))
    return (cut(x.shape, axes, [dims.range(x.shape[axis])[::-1] for axis in axes]),)


def _tiled(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    repeats = integers(settings.get("repeats"), "repeats")
    if len(repeats) != len(x.shape) or any(count < 0 for count in repeats):
        raise OpTypeError(
            f"repeats {shown(repeats)} of {x}: expected one number of at least 0 per dim",
            code="setting-type",
            settings=("repeats",),
        )
    dims = [dim for count, own in zip(repeats, whole(x.shape), strict=True) for dim in (ViewDim(count), own)]
    shape = tuple(count * extent for count, extent in zip(repeats, x.shape, strict=True))
    return (Moved(shape, View((0,) * len(x.shape), tuple(dims))),)


def _repeated(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    count = integer(settings.get("count"), "count")
    if count < 0:
        raise OpTypeError(f"count is {count}, expected at least 0", code="setting-type", settings=("count",))
    dims = list(whole(x.shape))
    dims.insert(axis + 1, ViewDim(count))
    shape = tuple(extent * count if n == axis else extent for n, extent in enumerate(x.shape))
    return (Moved(shape, View((0,) * len(x.shape), tuple(dims))),)


def _split(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    sizes = _sizes(x.shape[axis], settings, len(declared))
    if len(declared) > len(sizes):
        raise OpTypeError(f"yields {len(sizes)} parts of {x}, found {len(declared)} outputs", of="split", code="arity")
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    return tuple(
        cut(x.shape, [axis], [dims.range(start, start + size)]) for start, size in zip(starts, sizes, strict=True)
    )


def _sizes(extent: int, settings: Settings, outputs: int) -> tuple[int, ...]:
    """Return the size of each part; without ``sizes`` and ``parts`` there are as many as outputs."""
    given, parts = settings.get("sizes"), settings.get("parts")
    if given is not None and parts is not None:
        raise OpTypeError(
            "takes sizes or parts, not both", of="split", code="setting-type", settings=("sizes", "parts")
        )
    if given is not None:
        sizes = integers(given, "sizes")
        if not sizes or any(size < 0 for size in sizes) or sum(sizes) != extent:
            raise OpTypeError(f"sizes {shown(sizes)} do not sum up to the dim, which is {extent}", settings=("sizes",))
        return sizes
    count = outputs if parts is None else integer(parts, "parts")
    if count < 1:
        raise OpTypeError(
            f"into {count} parts: expected at least 1", of="split", code="setting-type", settings=("parts",)
        )
    chunk = -(-extent // count)
    last = extent - chunk * (count - 1)
    if last < 1:
        raise OpTypeError(
            f"a dim of {extent} has no {count} parts of {chunk} with something left for the last", settings=("parts",)
        )
    return (*(chunk for _ in range(count - 1)), last)


def _block(x: TensorType, settings: Settings, op: str) -> tuple[int, ...]:
    """Return the block and the dims of an image.

    Raises:
        OpTypeError: the block is not positive, or x is not an image.
    """
    block = integer(settings.get("block"), "block")
    if block < 1:
        raise OpTypeError(f"block is {block}, expected at least 1", code="setting-type", settings=("block",))
    if len(x.shape) != 4:
        raise OpTypeError(f"takes x [N,C,H,W], found {x}", of=op)
    return block, *x.shape


def _depth_to_space(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    block, images, channels, rows, columns = _block(x, settings, "depth_to_space")
    if channels % (block * block):
        raise OpTypeError(
            f"{channels} channels are not a multiple of block * block = {block * block}", settings=("block",)
        )
    depth = channels // (block * block)
    steps = (block * depth, depth, 1) if settings.get("mode") == "DCR" else (block, 1, block * block)
    down, across, channel = (ViewDim(n, 1, step) for n, step in zip((block, block, depth), steps, strict=True))
    dims = (ViewDim(images, 0), channel, ViewDim(rows, 2), down, ViewDim(columns, 3), across)
    return (Moved((images, depth, rows * block, columns * block), View((0,) * 4, dims)),)


def _space_to_depth(x: TensorType, settings: Settings, declared: Sequence[TensorType]) -> tuple[Moved, ...]:
    del declared
    block, images, channels, rows, columns = _block(x, settings, "space_to_depth")
    if rows % block or columns % block:
        raise OpTypeError(f"rows and columns of {x} are not multiples of block = {block}", settings=("block",))
    high, wide = rows // block, columns // block
    dims = (
        *(ViewDim(images, 0), ViewDim(block, 2), ViewDim(block, 3)),
        *(ViewDim(channels, 1), ViewDim(high, 2, block), ViewDim(wide, 3, block)),
    )
    return (Moved((images, channels * block * block, high, wide), View((0,) * 4, dims)),)


SQUEEZE = _rearrangement(
    "squeeze",
    _squeezed,
    _optional_list("axes", "dims of 1 to leave out; default all of them"),
    summary="the elements in their order, without dims of 1",
    examples=(_example(3, 1, 5, 1), _example(1, 3, 1, axes=(-1,)), _example(1, 1), _example(0, 1, axes=(1,))),
    onnx="Squeeze",
)
UNSQUEEZE = _rearrangement(
    "unsqueeze",
    _unsqueezed,
    _list("axes", "dims of 1 in the result"),
    summary="the elements in their order, with more dims of 1",
    examples=(_example(3, 5, axes=(0, -1)), _example(axes=(0,)), _example(7, axes=(1, 2)), _example(0, axes=(0,))),
    onnx="Unsqueeze",
)
EXPAND = _rearrangement(
    "expand",
    _expanded,
    _optional_list("shape", "broadcast against the shape of x; default the declared shape of the output"),
    summary="x broadcast to a shape, as a copy",
    examples=(
        _example(3, 1, shape=(2, 1, 5)),
        _example(shape=(3, 2)),
        _example(5, outputs=(Operand(shape=(3, 5)),)),
        _example(1, 3, shape=(0, 3)),
    ),
    aliases=("broadcast_to",),
    onnx="Expand",
)
SLICE = _rearrangement(
    "slice",
    _sliced,
    _list("starts", "first places, one per axis; negative ones count from the end"),
    _list("ends", "places before which to stop, clamped like Python's"),
    _optional_list("axes", "which dims; default the first ones"),
    _optional_list("steps", "distances, not 0; default 1"),
    summary="the part of x between places, with Python's rules for slices",
    examples=(
        _example(5, 7, starts=(1, -3), ends=(4, 99)),
        _example(5, 7, starts=(-1,), ends=(-99,), axes=(1,), steps=(-2,)),
        _example(9, starts=(1,), ends=(8,), steps=(3,)),
        _example(4, 3, starts=(3,), ends=(1,)),
    ),
    onnx="Slice",
)
NARROW = _rearrangement(
    "narrow",
    _narrowed,
    _int("axis", "the dim"),
    _int("start", "first place"),
    _int("length", "number of places"),
    summary="some places in a row of one dim",
    examples=(_example(3, 7, axis=1, start=2, length=3), _example(9, axis=-1, start=-4, length=4)),
    onnx="Slice",
)
SELECT = _rearrangement(
    "select",
    _selected,
    _int("axis", "the dim"),
    _int("index", "the place; negative ones count from the end"),
    summary="one place of a dim, which disappears",
    examples=(_example(3, 5, axis=0, index=1), _example(3, 5, 2, axis=1, index=-1), _example(7, axis=0, index=3)),
    onnx="Gather",
)
SPLIT = _rearrangement(
    "split",
    _split,
    _int("axis", "the dim", 0),
    _optional_list("sizes", "size of each part, summing up to the dim"),
    SettingSpec(
        name="parts",
        type=SettingType.INT,
        default=None,
        doc="number of equal parts, the last may be smaller; default as many as outputs",
    ),
    summary="parts of x along a dim, one per output",
    examples=(
        _example(7, 3, parts=3),
        _example(3, 6, axis=1, sizes=(1, 0, 5)),
        _example(5, outputs=(Operand(shape=(3,)), Operand(shape=(2,)))),
    ),
    onnx="Split",
    several=True,
)
FLIP = _rearrangement(
    "flip",
    _flipped,
    _list("axes", "dims to reverse"),
    summary="x in reverse order along dims",
    examples=(_example(3, 5, axes=(1,)), _example(3, 5, axes=(0, -1)), _example(7, axes=(0,)), _example(0, axes=(0,))),
    onnx="Slice",
)
TILE = _rearrangement(
    "tile",
    _tiled,
    _list("repeats", "how often along each dim"),
    summary="x several times side by side along each dim",
    examples=(
        _example(3, 2, repeats=(2, 3)),
        _example(5, repeats=(3,)),
        _example(3, 2, repeats=(0, 1)),
        _example(repeats=()),
    ),
    onnx="Tile",
)
REPEAT = _rearrangement(
    "repeat",
    _repeated,
    _int("axis", "the dim"),
    _int("count", "how often"),
    summary="each slice of a dim several times in a row",
    examples=(_example(3, 5, axis=0, count=2), _example(2, 3, 5, axis=-1, count=3), _example(3, axis=0, count=0)),
    onnx="Unsqueeze, Expand, Reshape",
)
DEPTH_TO_SPACE = _rearrangement(
    "depth_to_space",
    _depth_to_space,
    _int("block", "side of the square of pixels that channels become"),
    SettingSpec(
        name="mode",
        type=SettingType.STR,
        default="DCR",
        choices=("DCR", "CRD"),
        doc="whether places in the block are the outer (DCR) or the inner dims of the channels",
    ),
    summary="moves channels of x [N,C,H,W] into blocks of pixels",
    examples=(_example(2, 8, 3, 5, block=2), _example(1, 18, 1, 2, block=3, mode="CRD")),
    onnx="DepthToSpace",
)
SPACE_TO_DEPTH = _rearrangement(
    "space_to_depth",
    _space_to_depth,
    _int("block", "side of the square of pixels that becomes channels"),
    summary="moves blocks of pixels of x [N,C,H,W] into channels, the place in the block as the outer dims",
    examples=(_example(2, 3, 4, 6, block=2), _example(1, 1, 3, 9, block=3)),
    onnx="SpaceToDepth",
)
