"""Operators that move elements."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dims import Dim, surely
from openinfer.dtypes import I64
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import known
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting, Value

OPEN_END = 1 << 62
"""Least number that stands for an open end: PyTorch writes the largest integer."""


@translates("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh", "positive")
def _same(node: Node) -> Value:
    return node.tensor()


@translates("copy")
def _copy(node: Node) -> Value:
    x, source = node.tensor(), node.converted(node.tensor("src"), node.dtype)
    return source if source.dims == x.dims else node.call("expand", source, shape=x.dims)


@translates("view", "reshape", "_unsafe_view", "view_copy", "_reshape_copy")
def _view(node: Node) -> Value:
    return node.reshaped(node.tensor(), node.sizes("shape" if node.op == "reshape" else "size"))


@translates("as_strided")
def _as_strided(node: Node) -> Value:
    """Elements as they lie in memory: of a row of them, whichever dims of 1 are around it, the same row."""
    x, size, strides = node.tensor(), node.integers("size"), node.integers("stride")
    rows = [stride for extent, stride in zip(size, strides, strict=True) if extent != 1]
    is_row = len([dim for dim in x.dims if dim != 1]) <= 1 and rows in ([], [1])
    if not is_row or node.get("storage_offset") or math.prod(size) != math.prod(x.dims):
        node.refuse("elements as they lie in memory, other than in one row")
    return node.reshaped(x, size)


@translates("flatten.using_ints")
def _flatten(node: Node) -> Value:
    x = node.tensor()
    first, last = node.axis("start_dim"), node.axis("end_dim")
    joined = math.prod(x.dims[first : last + 1])
    return node.reshaped(x, (*x.dims[:first], joined, *x.dims[last + 1 :]))


@translates("unflatten.int")
def _unflatten(node: Node) -> Value:
    x, axis = node.tensor(), node.axis()
    return node.reshaped(x, (*x.dims[:axis], *node.sizes("sizes"), *x.dims[axis + 1 :]))


@translates("expand", "expand_copy")
def _expand(node: Node) -> Value:
    x, wanted = node.tensor(), node.sizes("size")
    before = (1,) * (len(wanted) - x.rank) + x.dims
    shape = tuple(old if is_number(new) and new == -1 else new for old, new in zip(before, wanted, strict=True))
    return x if shape == x.dims else node.call("expand", x, shape=shape)


@translates("expand_as")
def _expand_as(node: Node) -> Value:
    return node.call("expand", node.tensor(), shape=node.tensor("other").dims)


@translates("permute", "permute_copy")
def _permute(node: Node) -> Value:
    x = node.tensor()
    return node.transposed(x, tuple(axis % x.rank for axis in node.integers("dims")))


_SWAPPED = MappingProxyType(
    {"transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1")}
)
"""Arguments that name two dims."""


@translates("transpose.int", "swapaxes", "swapdims", "t", "numpy_T", "mT")
def _transpose(node: Node) -> Value:
    x = node.tensor()
    if x.rank < 2:
        return x
    if node.op == "numpy_T":
        return node.transposed(x, tuple(reversed(range(x.rank))))
    named = _SWAPPED.get(node.op)
    first, second = (x.rank - 2, x.rank - 1) if named is None else (node.axis(name) for name in named)
    order = list(range(x.rank))
    order[first], order[second] = order[second], order[first]
    return node.transposed(x, tuple(order))


@translates("movedim.int", "movedim.intlist")
def _movedim(node: Node) -> Value:
    x = node.tensor()
    sources, targets = ([axis % x.rank for axis in node.sizes(name)] for name in ("source", "destination"))
    order: dict[Size, Size] = dict(zip(targets, sources, strict=True))
    rest = iter(axis for axis in range(x.rank) if axis not in sources)
    return node.transposed(x, tuple(int(order[place]) if place in order else next(rest) for place in range(x.rank)))


@translates("squeeze", "squeeze.dim", "squeeze.dims")
def _squeeze(node: Node) -> Value:
    x = node.tensor()
    axes = node.axes() if node.overload != "default" else tuple(range(x.rank))
    ones = tuple(axis for axis in axes if is_number(x.dims[axis]) and x.dims[axis] == 1) if x.rank else ()
    return node.call("squeeze", x, axes=ones) if ones else x


@translates("unsqueeze")
def _unsqueeze(node: Node) -> Value:
    x = node.tensor()
    return node.call("unsqueeze", x, axes=(node.axis(rank=x.rank + 1),))


@translates("cat", "concat", "concatenate")
def _cat(node: Node) -> Value:
    # A tensor of one empty dim is left out, whatever the shape of the others.
    values = [value for value in node.tensors("tensors") if value.dims != (0,)] or list(node.tensors("tensors")[:1])
    values = [node.converted(value, node.dtype) for value in values]
    return node.call("concat", *values, axis=node.axis(rank=values[0].rank))


@translates("stack")
def _stack(node: Node) -> Value:
    values = [node.converted(value, node.dtype) for value in node.tensors("tensors")]
    return node.call("stack", *values, axis=node.axis(rank=values[0].rank + 1))


def _parts(node: Node, sizes: Sequence[Size], axis: int) -> tuple[Value, ...]:
    if len(sizes) == 1:
        return (node.tensor(),)
    return node.emit.ops("split", [node.tensor()], {"axis": axis, "sizes": tuple(sizes)})


@translates("split.Tensor", "split_copy.Tensor", "chunk")
def _split(node: Node) -> tuple[Value, ...]:
    axis = node.axis()
    extent, count = node.tensor().dims[axis], len(node.source.results)
    if node.op == "chunk":
        part: Size = -(-extent // node.integer("chunks"))
    else:
        part = node.size("split_size")
    return _parts(node, [part] * (count - 1) + [extent - part * (count - 1)], axis)


@translates("split_with_sizes", "split.sizes", "split_with_sizes_copy")
def _split_with_sizes(node: Node) -> tuple[Value, ...]:
    return _parts(node, node.sizes("split_size" if node.op == "split" else "split_sizes"), node.axis())


@translates("unbind.int", "unbind_copy.int")
def _unbind(node: Node) -> tuple[Value, ...]:
    axis = node.axis()
    return tuple(node.call("select", node.tensor(), axis=axis, index=i) for i in range(len(node.source.results)))


@translates("select.int", "select_copy.int")
def _select(node: Node) -> Value:
    return node.call(
        "select", node.tensor(), axis=node.axis(), index=_place(node.tensor(), node.axis(), node.size("index"))
    )


def _place(x: Value, axis: int, place: Size) -> Size:
    return place + x.dims[axis] if is_number(place) and place < 0 else place


@translates("slice.Tensor", "slice_copy.Tensor", "narrow", "narrow_copy")
def _slice(node: Node) -> Value:
    x, axis = node.tensor(), node.axis()
    if node.op.startswith("narrow"):
        return node.call("narrow", x, axis=axis, start=_place(x, axis, node.size("start")), length=node.size("length"))
    start, end, step = _bounds(node, x.dims[axis])
    if step == 1 and not _is_plain(start, end) and is_number(start) and start >= 0:
        return node.call("narrow", x, axis=axis, start=start, length=end - start)
    settings: dict[str, Setting] = {"starts": (start,), "ends": (end,), "axes": (axis,)}
    return node.call("slice", x, **settings, **({} if step == 1 else {"steps": (step,)}))


def _bounds(node: Node, extent: Size) -> tuple[Size, Size, int]:
    """Return where a slice starts and ends, and its step."""
    start = 0 if node.get("start") is None else node.size("start")
    end = extent if node.get("end") is None else node.size("end")
    step = node.integer("step") if node.get("step") is not None else 1
    if is_number(end) and (end >= OPEN_END or (is_number(extent) and end > extent)):
        end = extent
    return start, end, step


def _is_plain(start: Size, end: Size) -> bool:
    """Whether both places are numbers, which Python's rules for slices clamp."""
    return is_number(start) and is_number(end)


@translates("slice_scatter")
def _slice_scatter(node: Node) -> Value:
    """The tensor with a part of a dim replaced: what is before it, the new part, and what is after."""
    x, source, axis = node.tensor(), node.converted(node.tensor("src"), node.dtype), node.axis()
    start, end, step = _bounds(node, x.dims[axis])
    start, end = _place(x, axis, start), _place(x, axis, end)
    if step != 1:
        if not (is_number(start) and is_number(end)):
            node.refuse(f"step={step} between places that depend on sizes")
        return _with_places(node, x, source, axis, range(start, end, step))
    extent = x.dims[axis]
    parts = [node.call("narrow", x, axis=axis, start=0, length=start)] if not _is_zero(start) else []
    parts.append(source)
    if not _is_zero(extent - end):
        parts.append(node.call("narrow", x, axis=axis, start=end, length=extent - end))
    return parts[0] if len(parts) == 1 else node.call("concat", *parts, axis=axis)


def _is_zero(size: Size) -> bool:
    return surely(lambda: size == 0) if isinstance(size, Dim) else size == 0


def _with_places(node: Node, x: Value, source: Value, axis: int, places: range) -> Value:
    shape = [1] * x.rank
    shape[axis] = len(places)
    indices = node.call("expand", known(np.array(places, np.int64).reshape(shape), I64), shape=source.dims)
    return node.call("scatter", x, indices, source, axis=axis)


@translates("select_scatter")
def _select_scatter(node: Node) -> Value:
    x, axis, place = node.tensor(), node.axis(), node.size("index")
    if not is_number(place):
        node.refuse("a place that depends on sizes")
    source = node.call("unsqueeze", node.converted(node.tensor("src"), node.dtype), axes=(axis,))
    start = place % x.dims[axis]
    return _with_places(node, x, source, axis, range(int(start), int(start) + 1))


@translates("repeat", "tile")
def _repeat(node: Node) -> Value:
    x = node.tensor()
    repeats = node.sizes("dims" if node.op == "tile" else "repeats")
    repeats = (1,) * (x.rank - len(repeats)) + repeats
    x = node.reshaped(x, (1,) * (len(repeats) - x.rank) + x.dims)
    return node.call("tile", x, repeats=repeats)


@translates("repeat_interleave.self_int")
def _repeat_interleave(node: Node) -> Value:
    x = node.tensor()
    if node.get("dim") is None:
        x = node.reshaped(x, (-1,))
    return node.call("repeat", x, axis=0 if node.get("dim") is None else node.axis(), count=node.size("repeats"))


@translates("flip")
def _flip(node: Node) -> Value:
    axes = node.get("dims")
    if not axes:
        return node.tensor()
    return node.call("flip", node.tensor(), axes=tuple(axis % node.tensor().rank for axis in node.integers("dims")))


@translates("roll")
def _roll(node: Node) -> Value:
    """What moves over the end comes in again at the beginning."""
    x = whole = node.tensor()
    axes = tuple(axis % x.rank for axis in node.integers("dims"))
    if not axes:
        x, axes = node.reshaped(x, (-1,)), (0,)
    for axis, shift in zip(axes, node.integers("shifts"), strict=True):
        extent = x.dims[axis]
        if not is_number(extent):
            node.refuse("a dim that depends on sizes")
        place = -shift % extent if extent else 0
        if place:
            first, last = node.emit.ops("split", [x], {"axis": axis, "sizes": (place, extent - place)})
            x = node.call("concat", last, first, axis=axis)
    return node.reshaped(x, whole.dims)


@translates("tril", "triu")
def _triangle(node: Node) -> Value:
    return node.call(node.op, node.tensor(), k=node.integer("diagonal"))


@translates("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def _pad(node: Node) -> Value:
    x, given = node.tensor(), node.sizes("padding" if "_pad" in node.op and node.op != "constant_pad_nd" else "pad")
    pads: list[Size] = [0] * (2 * x.rank)
    for place in range(len(given) // 2):
        axis = x.rank - 1 - place
        pads[axis], pads[x.rank + axis] = given[2 * place], given[2 * place + 1]
    mode = {"refle": "reflect", "repli": "edge"}.get(node.op[:5], "constant")
    if node.op == "pad":
        mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.get(node.get("mode"), "constant")
    settings: dict[str, Setting] = {} if mode == "constant" else {"mode": mode}
    value = node.get("value") or 0
    if mode == "constant" and value:
        settings["value"] = float(value) if x.dtype.is_float else int(value)
    return node.call("pad", x, pads=tuple(pads), **settings)


@translates("pixel_shuffle", "pixel_unshuffle")
def _pixel_shuffle(node: Node) -> Value:
    """Squares of pixels from channels, and back; channels of one pixel lie next to one another."""
    x = node.tensor()
    image = x if x.rank == 4 else node.reshaped(x, (-1, *x.dims[-3:]))
    if node.op == "pixel_shuffle":
        made = node.call("depth_to_space", image, block=node.integer("upscale_factor"), mode="CRD")
    else:
        made = _unshuffled(node, image, node.integer("downscale_factor"))
    return made if x.rank == 4 else node.reshaped(made, (*x.dims[:-3], *made.dims[1:]))


def _unshuffled(node: Node, x: Value, block: int) -> Value:
    batch, channels, rows, columns = x.dims
    apart = node.reshaped(x, (batch, channels, rows // block, block, columns // block, block))
    moved = node.call("transpose", apart, perm=(0, 1, 3, 5, 2, 4))
    return node.reshaped(moved, (batch, channels * block * block, rows // block, columns // block))


@translates("channel_shuffle")
def _channel_shuffle(node: Node) -> Value:
    x, groups = node.tensor(), node.integer("groups")
    batch, channels, *rest = x.dims
    apart = node.reshaped(x, (batch, groups, channels // groups, *rest))
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    return node.reshaped(node.call("transpose", apart, perm=order), x.dims)


@translates("diagonal", "diagonal_copy")
def _diagonal(node: Node) -> Value:
    """A dim of the elements on a diagonal, the last one: gathered from the two dims joined."""
    x = node.tensor()
    first, second, offset = node.axis("dim1"), node.axis("dim2"), node.integer("offset")
    rest = tuple(axis for axis in range(x.rank) if axis not in (first, second))
    moved = node.transposed(x, (*rest, first, second))
    rows, columns = moved.dims[-2:]
    if not (is_number(rows) and is_number(columns)):
        node.refuse("dims that depend on sizes")
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    places = np.arange(count, dtype=np.int64) * (columns + 1) + (offset if offset >= 0 else -offset * columns)
    joined = node.reshaped(moved, (*moved.dims[:-2], rows * columns))
    return node.call("gather", joined, known(places, I64), axis=len(rest))


@translates("unfold")
def _unfold(node: Node) -> Value:
    """Windows along a dim, with a dim of their own at the end."""
    x, axis, size, step = node.tensor(), node.axis("dimension"), node.integer("size"), node.integer("step")
    extent = x.dims[axis]
    if not is_number(extent):
        node.refuse("a dim that depends on sizes")
    places = np.arange(0, extent - size + 1, step, dtype=np.int64)[:, None] + np.arange(size)
    made = node.call("gather", x, known(places, I64), axis=axis)
    order = (*range(axis + 1), *range(axis + 2, made.rank), axis + 1)
    return node.transposed(made, order)
