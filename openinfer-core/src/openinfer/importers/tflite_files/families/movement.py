"""Operators that move elements."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.dtypes import I32
from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import of_elements
from openinfer.importers.tflite_files.image_order import CHANNELS_FIRST, permuted
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import activated
from openinfer.importers.tflite_files.through_reals import on_codes

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting, Value


def _reshape(node: Node) -> Value:
    shape: tuple[Size, ...] = node.integers(1) if node.input(1) is not None else node.option("NewShape", ())
    if any(is_number(extent) and extent == 0 for extent in shape):
        node.refuse("a tensor without elements")
    return node.call("reshape", node.given(0), shape=shape)


def _margins(node: Node, x: Value) -> tuple[list[int], list[int]]:
    margins = node.numbers(1)
    if len(margins) != 2 * x.rank or min(margins, default=0) < 0:
        node.refuse(f"the margins {margins} of {x.rank} dims")
    return margins[0::2], margins[1::2]


def _padded(node: Node, settings: dict[str, Setting]) -> Value:
    x = node.given(0)
    before, after = _margins(node, x)
    if not node.order.has_planes(x):
        return node.call("pad", x, pads=(*before, *after), **settings)
    moved = [*(before[axis] for axis in CHANNELS_FIRST), *(after[axis] for axis in CHANNELS_FIRST)]
    return node.order.image(node.call("pad", node.order.planes(x), pads=tuple(moved), **settings))


def _pad(node: Node) -> Value:
    """Margins of zeros; those of codes hold the zero point."""
    zero = int(node.parameters(node.tensor(0)).zero[0]) if is_quantised(node.tensor(0)) else 0
    return _padded(node, {"value": zero} if zero else {})


def _pad_v2(node: Node) -> Value:
    return _padded(node, {"value": scalar_of(node.known_array(2), node.given(0).dtype)})


def _mirror_pad(node: Node) -> Value:
    if node.choice("Mode", ("REFLECT", "SYMMETRIC")) == "REFLECT":
        return _padded(node, {"mode": "reflect"})
    x = node.given(0)
    for axis, (before, after) in enumerate(zip(*_margins(node, x), strict=True)):
        x = _mirrored(node, x, axis, before, after)
    return x


def _mirrored(node: Node, x: Value, axis: int, before: int, after: int) -> Value:
    """Return an array with margins along a dim that mirror it, its edge too."""
    extent = x.dims[axis]
    if not is_number(extent):
        node.refuse("the shape depends on sizes: fix them with --set")
    if max(before, after) > extent:
        node.refuse(f"margins of {before} and {after} around {extent}")
    ends = [(0, before), (extent - after, extent)]
    first, last = (
        node.call("flip", node.call("slice", x, starts=(start,), ends=(end,), axes=(axis,)), axes=(axis,))
        if end > start
        else None
        for start, end in ends
    )
    parts = [part for part in (first, x, last) if part is not None]
    return node.emit.ops("concat", parts, {"axis": axis})[0] if len(parts) > 1 else x


def _concatenation(node: Node) -> Value:
    values = [node.given(position) for position in range(len(node.inputs))]
    axis = node.axis(int(node.option("Axis")), values[0].rank)
    if any(map(node.order.has_planes, values)) and all(value.rank == 4 for value in values):
        joined = node.emit.ops("concat", [*map(node.order.planes, values)], {"axis": CHANNELS_FIRST.index(axis)})[0]
        return node.order.image(activated(node, joined))
    return activated(node, node.emit.ops("concat", values, {"axis": axis})[0])


def _split(node: Node) -> tuple[Value, ...]:
    x, axis = node.given(1), node.axis(node.numbers(0)[0], node.given(1).rank)
    count = int(node.option("NumSplits"))
    extent = x.dims[axis]
    if not is_number(extent) or count < 1 or extent % count:
        node.refuse(f"{count} parts of {extent}")
    return node.emit.ops("split", [x], {"axis": axis, "sizes": (extent // count,) * count})


def _split_v(node: Node) -> tuple[Value, ...]:
    x, axis = node.given(0), node.axis(node.numbers(2)[0], node.given(0).rank)
    sizes, extent = node.numbers(1), x.dims[axis]
    if -1 in sizes:
        if not is_number(extent):
            node.refuse("a part whose size depends on sizes: fix them with --set")
        sizes[sizes.index(-1)] = extent - sum(size for size in sizes if size != -1)
    return node.emit.ops("split", [x], {"axis": axis, "sizes": tuple(sizes)})


def _slice(node: Node) -> Value:
    x, starts, sizes = node.given(0), node.numbers(1), node.numbers(2)
    extents = x.dims
    ends: list[Size] = []
    for start, size, extent in zip(starts, sizes, extents, strict=True):
        if start < 0 or size < -1 or (is_number(extent) and start + max(size, 0) > extent):
            node.refuse(f"{size} places from {start} on of a dim of {extent}")
        if size == -1:
            ends.append(extent)
        else:
            ends.append(start + size)
    return node.call("slice", x, starts=tuple(starts), ends=tuple(ends))


def _strided_slice(node: Node) -> Value:
    """Python's slices: bits of masks leave a bound open, add a dim of 1, take one place of a dim, or skip dims."""
    x, (starts, ends, steps) = node.given(0), (node.numbers(position) for position in (1, 2, 3))
    begins, finishes, ellipsis, adds, takes = (
        int(node.option(f"{name}Mask")) for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")
    )
    are_lengths = bool(node.option("Offset", False))
    added = sum(adds >> place & 1 and not ellipsis >> place & 1 for place in range(len(starts)))
    cuts: list[_Cut] = []
    gone: list[int] = []
    new: list[int] = []
    axis = left = 0
    for place, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if ellipsis >> place & 1:
            skipped = x.rank - (len(starts) - 1 - added)
            axis, left = axis + skipped, left + skipped
        elif adds >> place & 1:
            new.append(left)
            left += 1
        elif takes >> place & 1:
            gone.append(axis)
            cuts.append(_one_place(axis, start, x.dims[axis]))
            axis += 1
        else:
            is_open = bool(begins >> place & 1), bool(finishes >> place & 1)
            extent = x.dims[axis]
            high = _end_at(start, end, step, extent, is_open=is_open[0]) if are_lengths else end
            cuts.append(_cut(axis, start, high, step, extent, is_open))
            axis, left = axis + 1, left + 1
    part = _sliced(node, x, cuts)
    part = node.call("squeeze", part, axes=tuple(gone)) if gone else part
    return node.call("unsqueeze", part, axes=tuple(new)) if new else part


_Cut: TypeAlias = "tuple[int, Size, Size, int]"
"""A dim, with the first place, the one before which to stop, and the distance."""


def _one_place(axis: int, start: int, extent: Size) -> _Cut:
    low = start + extent if start < 0 and is_number(extent) else start
    return axis, low, low + 1 if low != -1 else extent, 1


def _end_at(start: int, length: int, step: int, extent: Size, *, is_open: bool) -> Size:
    """Return the end that is at a distance from the start, counted from the beginning of a dim."""
    if is_open:
        end = length if step > 0 else extent - 1 + length
    else:
        end = start + length if start >= 0 else extent + (start + length)
    return end if not is_number(end) or end >= 0 else 0 if step > 0 else -(1 << 31)


def _cut(axis: int, start: int, end: Size, step: int, extent: Size, is_open: tuple[bool, bool]) -> _Cut:
    open_end: Size = extent if step > 0 else -(1 << 31)
    low: Size = start if not is_open[0] else 0 if step > 0 else extent
    return axis, low, open_end if is_open[1] else end, step


def _sliced(node: Node, x: Value, cuts: list[_Cut]) -> Value:
    if not cuts:
        return x
    axes, lows, highs, steps = zip(*cuts, strict=True)
    settings: dict[str, Setting] = {"starts": lows, "ends": highs, "axes": axes}
    settings |= {"steps": steps} if any(step != 1 for step in steps) else {}
    return node.call("slice", x, **settings)


def _transpose(node: Node) -> Value:
    order = node.numbers(1)
    if sorted(order) != list(range(node.given(0).rank)):
        node.refuse(f"the order {order} of {node.given(0).rank} dims")
    return permuted(node.emit, node.given(0), order)


def _pack(node: Node) -> Value:
    values = [node.given(position) for position in range(len(node.inputs))]
    axis = node.axis(int(node.option("Axis")), values[0].rank + 1)
    return node.emit.ops("stack", values, {"axis": axis})[0]


def _unpack(node: Node) -> list[Value]:
    axis = node.axis(int(node.option("Axis")), node.given(0).rank)
    return [node.call("select", node.given(0), axis=axis, index=index) for index in range(len(node.results))]


def _expand_dims(node: Node) -> Value:
    return node.call("unsqueeze", node.given(0), axes=(node.axis(node.numbers(1)[0], node.given(0).rank + 1),))


def _squeeze(node: Node) -> Value:
    axes = tuple(node.axis(axis, node.given(0).rank) for axis in node.option("SqueezeDims", ()))
    return node.call("squeeze", node.given(0), **({"axes": axes} if axes else {}))


def _tile(node: Node) -> Value:
    return node.call("tile", node.given(0), repeats=tuple(node.numbers(1)))


def _broadcast_to(node: Node) -> Value:
    return node.call("expand", node.given(0), shape=node.integers(1))


def _fill(node: Node) -> Value:
    return node.call("expand", node.given(1), shape=node.integers(0))


def _zeros_like(node: Node) -> Value:
    zero = int(node.parameters(node.results[0]).zero[0]) if is_quantised(node.results[0]) else 0
    return node.call("fill", node.given(0), value=zero)


def _broadcast_args(node: Node) -> Value:
    """The shape that two shapes broadcast to."""
    shapes = [list(node.integers(position)) for position in range(2)]
    rank = max(map(len, shapes))
    padded = [[1] * (rank - len(shape)) + shape for shape in shapes]
    made: list[Size] = []
    for a, b in zip(*padded, strict=True):
        if a != b and not (is_number(a) and a == 1) and not (is_number(b) and b == 1):
            node.refuse(f"shapes with the extents {a} and {b} in one place")
        made.append(b if is_number(a) and a == 1 else a)
    return of_elements(made, (rank,), node.results[0].dtype)


def _dynamic_update_slice(node: Node) -> Value:
    """An array with a part replaced at a place that the running program knows, moved so that the part is inside."""
    x, part, start = node.given(0), node.given(1), node.given(2)
    extents, lengths = _plain(node, x), _plain(node, part)
    inside: Value | None = None
    for axis, (extent, length) in enumerate(zip(extents, lengths, strict=True)):
        if length == extent:
            continue
        place = node.call("cast", node.call("slice", start, starts=(axis,), ends=(axis + 1,)), to=I32)
        first = node.call("clamp", place, min=0, max=extent - length)
        distance = node.call("sub", node.emit.typed("range", I32, (extent,), start=0, limit=extent), first)
        within = node.call("clamp", distance, min=0, max=length - 1)
        part = node.call("gather", part, within, axis=axis)
        is_in = node.call("reshape", node.call("eq", within, distance), shape=(extent, *[1] * (x.rank - axis - 1)))
        inside = is_in if inside is None else node.call("and", inside, is_in)
    return part if inside is None else node.call("where", inside, part, x)


def _shape(node: Node) -> Value:
    dims = node.given(0).dims
    return of_elements(dims, (len(dims),), node.results[0].dtype)


def _rank(node: Node) -> Value:
    return node.number(node.given(0).rank, I32)


def _reverse(node: Node) -> Value:
    x = node.given(0)
    return node.call("flip", x, axes=tuple(node.axis(axis, x.rank) for axis in node.numbers(1)))


def _space_to_depth(node: Node) -> Value:
    op = node.op.lower()
    return node.order.image(node.call(op, node.planes(0), block=int(node.option("BlockSize"))))


def _space_to_batch(node: Node) -> Value:
    """Margins, then each place within a block is a batch of its own, before the batches that there were."""
    x, block, margins = node.given(0), node.numbers(1), np.array(node.numbers(2)).reshape(-1, 2)
    rest = x.rank - 1 - len(block)
    before, after = ((0, *(int(pad) for pad in margins[:, side]), *([0] * rest)) for side in (0, 1))
    zero = int(node.parameters(node.tensor(0)).zero[0]) if node.is_quantised else 0
    value: dict[str, Setting] = {"value": zero} if zero else {}
    padded = node.call("pad", x, pads=(*before, *after), **value) if margins.any() else x
    batch, *extents = _plain(node, padded)
    split = [batch, *(part for n, b in zip(extents, block, strict=False) for part in (n // b, b))]
    count = len(block)
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, 2 * count + 1 + rest)]
    moved = permuted(node.emit, node.call("reshape", padded, shape=(*split, *extents[count:])), order)
    shape = [batch * int(np.prod(block)), *(n // b for n, b in zip(extents, block, strict=False)), *extents[count:]]
    return node.call("reshape", moved, shape=tuple(shape))


def _batch_to_space(node: Node) -> Value:
    """The inverse: batches become places within blocks, and margins are cut off."""
    x, block, crops = node.given(0), node.numbers(1), np.array(node.numbers(2)).reshape(-1, 2)
    batch, *extents = _plain(node, x)
    count, kept = len(block), batch // int(np.prod(block))
    order = [count, *(axis for n in range(count) for axis in (count + 1 + n, n))]
    order += range(2 * count + 1, count + 1 + len(extents))
    moved = permuted(node.emit, node.call("reshape", x, shape=(*block, kept, *extents)), order)
    whole = [n * b for n, b in zip(extents, block, strict=False)]
    joined = node.call("reshape", moved, shape=(kept, *whole, *extents[count:]))
    if not crops.any():
        return joined
    starts = tuple(int(crop) for crop in crops[:, 0])
    ends = tuple(n - int(crop) for n, crop in zip(whole, crops[:, 1], strict=True))
    return node.call("slice", joined, starts=starts, ends=ends, axes=tuple(range(1, count + 1)))


def _plain(node: Node, x: Value) -> tuple[int, ...]:
    if x.shape is None:
        node.refuse("the shape depends on sizes: fix them with --set")
    return x.shape


TRANSLATORS = MappingProxyType(
    {
        "BATCH_TO_SPACE_ND": _batch_to_space,
        "BROADCAST_ARGS": _broadcast_args,
        "BROADCAST_TO": on_codes(_broadcast_to),
        "CONCATENATION": on_codes(_concatenation),
        "DEPTH_TO_SPACE": on_codes(_space_to_depth),
        "DYNAMIC_UPDATE_SLICE": on_codes(_dynamic_update_slice),
        "EXPAND_DIMS": on_codes(_expand_dims),
        "FILL": on_codes(_fill),
        "MIRROR_PAD": on_codes(_mirror_pad),
        "PACK": on_codes(_pack),
        "PAD": _pad,
        "PADV2": on_codes(_pad_v2),
        "RANK": _rank,
        "RESHAPE": _reshape,
        "REVERSE_V2": on_codes(_reverse),
        "SHAPE": _shape,
        "SLICE": on_codes(_slice),
        "SPACE_TO_BATCH_ND": _space_to_batch,
        "SPACE_TO_DEPTH": on_codes(_space_to_depth),
        "SPLIT": on_codes(_split),
        "SPLIT_V": on_codes(_split_v),
        "SQUEEZE": on_codes(_squeeze),
        "STRIDED_SLICE": on_codes(_strided_slice),
        "TILE": on_codes(_tile),
        "TRANSPOSE": on_codes(_transpose),
        "UNPACK": on_codes(_unpack),
        "ZEROS_LIKE": _zeros_like,
    }
)
