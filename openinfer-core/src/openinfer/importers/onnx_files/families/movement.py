"""Operators that move elements, or say where they lie."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dims import Dim, surely
from openinfer.dtypes import BOOL, F32, I64
from openinfer.importers.onnx_files.demands import LARGEST
from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import NeedsValueError, Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting, Value

MOST_IDENTITY = 1 << 24
"""Sizes of the largest identity matrix that becomes a weight."""


@translates("Concat")
def _concat(node: Node) -> Value:
    inputs = [value for value in node.inputs if value is not None]
    return node.call("concat", *inputs, axis=int(node.get("axis", 1)))


@translates("DepthToSpace", "SpaceToDepth")
def _depth(node: Node) -> Value:
    block, mode = int(node.get("blocksize")), node.get("mode", "DCR")
    settings: dict[str, Setting] = {"block": block}
    if node.op == "SpaceToDepth":
        made = node.call("space_to_depth", node.given(0), **settings)
        return made if mode == "DCR" else _columns_first(node, made, block * block)
    return node.call("depth_to_space", node.given(0), **settings, **({} if mode == "DCR" else {"mode": mode}))


def _columns_first(node: Node, x: Value, places: int) -> Value:
    """Return channels that lie by place of a block, and then by channel, the other way round."""
    batch, channels, height, width = x.dims
    apart = node.reshaped(x, (batch, places, channels // places, height, width))
    return node.reshaped(node.call("transpose", apart, perm=(0, 2, 1, 3, 4)), x.dims)


@translates("ReverseSequence")
def _reverse_sequence(node: Node) -> Value:
    """Each sequence with its first elements, as many as its length says, in reverse order."""
    x = node.given(0)
    batch, time = (int(node.get(name, default)) for name, default in (("batch_axis", 1), ("time_axis", 0)))
    if {batch, time} != {0, 1}:
        node.refuse(f"batch_axis={batch} and time_axis={time}, expected 0 and 1, or 1 and 0")

    def along(values: Value, axis: int) -> Value:
        return node.reshaped(values, tuple(values.dims[0] if axis == dim else 1 for dim in range(x.rank)))

    lengths = along(cast(node, node.given(1), I64), batch)
    place = along(node.emit.typed("range", I64, (x.dims[time],), start=0, limit=x.dims[time]), time)
    mirrored = node.call("sub", node.call("sub", lengths, place), node.number(1, I64))
    source = node.call("where", node.call("lt", place, lengths), mirrored, place)
    return node.call("gather_elements", x, node.call("expand", source, shape=x.dims), axis=time)


@translates("Expand")
def _expand(node: Node) -> Value:
    x, shape = node.given(0), node.integers(1) or ()
    wanted = tuple(_broadcast(x.dims, shape))
    return x if wanted == x.dims else node.call("expand", x, shape=wanted)


def _broadcast(left: Sequence[Size], right: Sequence[Size]) -> list[Size]:
    """Return a shape that both fit; extents that depend on sizes are taken to be equal or not 1."""
    rank = max(len(left), len(right))
    pairs = zip([1] * (rank - len(left)) + list(left), [1] * (rank - len(right)) + list(right), strict=True)
    return [_extent(one, other) for one, other in pairs]


def _extent(one: Size, other: Size) -> Size:
    """Return the extent that two broadcast to: a number above 1 is more than what depends on a size can say."""
    if other == 1 or (is_number(one) and one != 1 and not is_number(other)):
        return one
    return other


@translates("Flatten")
def _flatten(node: Node) -> Value:
    return node.call("flatten", node.given(0), axis=int(node.get("axis", 1)))


@translates("Reshape")
def _reshape(node: Node) -> Value:
    x = node.given(0)
    found = node.integers(1)
    shape = list(node.get("shape", ())) if found is None else list(found)
    if not node.flag("allowzero"):
        shape = [x.dims[axis] if extent == 0 else extent for axis, extent in enumerate(shape)]
    elif 0 in shape:
        if -1 in shape:
            node.refuse("allowzero with an extent that is left to infer")
        return node.emit.typed("reshape", x.dtype, shape, x)
    if 0 in shape and -1 not in shape:
        return node.emit.typed("reshape", x.dtype, shape, x)
    found = node.call("reshape", x, shape=tuple(_with_copies(x, shape)))
    if any(not is_number(extent) for extent in _with_copies(x, shape)):
        # What is left to infer is known by now, and easier to read.
        node.emit.calls[-1].settings["shape"] = tuple(_with_copies(x, list(found.dims)))
    return found


def _with_copies(x: Value, shape: list[Size]) -> list[Size]:
    """Return a shape with 0 in place of extents that depend on sizes and are those of the input at the same place."""
    return [
        0 if not is_number(extent) and axis < x.rank and x.dims[axis] == extent else extent
        for axis, extent in enumerate(shape)
    ]


OPEN_END = 10**9
"""Least number that stands for an open end: jax2tf writes it, others the largest integers of 32 or 64 bits."""


@translates("Slice")
def _slice(node: Node) -> Value:
    x, settings = node.given(0), dict[str, "Setting"]()
    for position, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        found = node.get(name) if len(node.inputs) == 1 else node.integers(position)
        if found is not None:
            settings[name] = tuple(_clamped(element) for element in found)
    steps = settings.get("steps")
    if isinstance(steps, tuple) and all(step == 1 for step in steps):
        del settings["steps"]
    first = _first_rows(x, settings)
    return node.call("slice", x, **settings) if first is None else node.call("narrow", x, **first)


def _first_rows(x: Value, settings: Mapping[str, Setting]) -> dict[str, Setting] | None:
    """Return a slice up to a size as settings of `narrow`, such as rows of a table of positions; None for others.

    What ONNX would cut off at the end of the table is an error there: models mean that the size fits.
    """
    starts, ends, axes = (settings.get(name, ()) for name in ("starts", "ends", "axes"))
    if not (isinstance(starts, tuple) and isinstance(ends, tuple) and isinstance(axes, tuple)) or "steps" in settings:
        return None
    if not len(starts) == len(ends) == len(axes) == 1 or not is_number(axes[0]):
        return None
    if not -x.rank <= axes[0] < x.rank:
        return None
    axis, start, end = axes[0] % x.rank, starts[0], ends[0]
    extent = x.dims[axis]
    if not is_number(extent) or not is_number(start) or not isinstance(end, Dim):
        return None
    if start < 0 or surely(lambda: end > extent):
        return None
    return {"axis": axis, "start": start, "length": end - start}


def _clamped(element: Size) -> Size:
    """Return a place; exporters write large integers for an open end, of which readers need only the sign."""
    if not is_number(element) or abs(element) < OPEN_END:
        return element
    return LARGEST if element > 0 else -LARGEST - 1  # Before the first element of the largest extent, too.


@translates("Split")
def _split(node: Node) -> tuple[Value, ...]:
    sizes = node.get("split") if node.input(1) is None else node.integers(1)
    parts = int(node.get("num_outputs", len(node.source.outputs)))
    if parts != len(node.source.outputs):
        node.refuse(f"num_outputs={parts}, expected the number of its outputs, {len(node.source.outputs)}")
    settings: dict[str, Setting] = {"axis": int(node.get("axis", 0))}
    extent = node.given(0).dims[int(node.get("axis", 0))]
    if sizes is None and is_number(extent) and parts > 0 and extent % parts:
        # The last part is what is left, as ONNX has it.
        longest = -(-extent // parts)
        sizes = [longest] * (parts - 1) + [extent - longest * (parts - 1)]
        if sizes[-1] < 0:
            node.refuse(f"{extent} elements in {parts} parts of {longest}")
    settings |= {"sizes": tuple(sizes)} if sizes is not None else {"parts": parts}
    return node.emit.ops("split", [node.given(0)], settings)


@translates("Squeeze", "Unsqueeze")
def _squeeze(node: Node) -> Value:
    axes = node.get("axes") if node.input(1) is None else node.plain_integers(1)
    settings: dict[str, Setting] = {} if axes is None else {"axes": tuple(axes)}
    return node.call(node.op.lower(), node.given(0), **settings)


@translates("Tile")
def _tile(node: Node) -> Value:
    return node.call("tile", node.given(0), repeats=tuple(node.integers(1) or ()))


@translates("Transpose")
def _transpose(node: Node) -> Value:
    perm = node.get("perm")
    x = node.given(0)
    if perm is not None and list(perm) == list(range(x.rank)):
        return x
    return node.call("transpose", x, **({} if perm is None else {"perm": tuple(perm)}))


@translates("Trilu")
def _trilu(node: Node) -> Value:
    k = node.plain_integers(1)
    settings: dict[str, Setting] = {"k": k[0]} if k and k[0] else {}
    return node.call("triu" if node.flag("upper", True) else "tril", node.given(0), **settings)


@translates("Pad")
def _pad(node: Node) -> Value:
    x = node.given(0)
    rank = x.rank
    is_attribute = len(node.inputs) == 1
    listed = node.get("pads", node.get("paddings")) if is_attribute else node.emit.integers(node.given(1), "pad")
    named = node.plain_integers(3)
    axes = list(range(rank)) if named is None else [axis % rank for axis in named]
    by_axis: list[Size] = list(listed or [0] * (2 * len(axes)))
    pads: list[Size] = [0] * (2 * rank)
    for number, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = by_axis[number], by_axis[len(axes) + number]
    settings: dict[str, Setting] = {"pads": tuple(pads)}
    mode = node.get("mode", "constant")
    if mode != "constant":
        return node.call("pad", x, **settings, mode=mode)
    value = node.input(2)
    if value is not None and value.payload is None:
        # Padding with a number of the running program: what a mask does not cover takes it.
        mask = node.call("expand", node.number(True, BOOL), shape=x.dims)
        inside = node.call("pad", mask, **settings)
        return node.call("where", inside, node.call("pad", x, **settings), value)
    if value is not None:
        number = scalar_of(value.array(), value.dtype)
        settings |= {} if number == 0 else {"value": number}
    elif node.get("value", 0.0):
        settings["value"] = float(node.get("value"))
    return node.call("pad", x, **settings)


@translates("ConstantOfShape")
def _constant_of_shape(node: Node) -> Value:
    payload = node.tensor_attribute("value")
    value = known(np.zeros(1, np.float32), F32) if payload is None else known(payload.load(), payload.dtype)
    shape = node.integers(0) or ()
    number = node.number(scalar_of(value.array(), value.dtype), value.dtype)
    return node.call("expand", number, shape=tuple(shape)) if shape else number


@translates("Constant")
def _constant(node: Node) -> Value:
    payload = node.tensor_attribute("value") or node.tensor_attribute("sparse_value")
    if payload is not None:
        from openinfer.importers.onnx_files.values import Value as Known

        return Known("", payload.dtype, payload.shape, payload)
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64)):
        if node.has(name):
            return node.numbers(np.array(node.get(name), dtype))
    if node.has("value_ints"):
        return node.numbers(np.array(node.get("value_ints"), np.int64))
    return node.refuse("text, which OpenInfer does not have as an element type")


@translates("EyeLike")
def _eye_like(node: Node) -> Value:
    from openinfer.array_types import storage_dtype
    from openinfer.importers.onnx_files.elements import element_type
    from openinfer.importers.onnx_files.package import onnx_module

    rows, columns = node.shape(0)
    number = node.get("dtype")
    dtype = node.given(0).dtype if number is None else element_type(onnx_module(), int(number))
    if dtype is None:
        node.refuse("dtype, which OpenInfer does not have")
    if rows * columns > MOST_IDENTITY:
        node.refuse(f"a matrix of {rows} x {columns} elements, of which at most {MOST_IDENTITY} are written out")
    return known(np.eye(rows, columns, int(node.get("k", 0))).astype(storage_dtype(dtype)), dtype)


@translates("Range")
def _range(node: Node) -> Value:
    unknown = [position for position in range(3) if not _is_known(node.given(position))]
    if unknown:
        raise NeedsValueError(node.source, *unknown)
    start, limit, step = (_bound(node, position) for position in range(3))
    if isinstance(start, Dim) or isinstance(limit, Dim) or isinstance(step, Dim):
        count = _steps_of_sizes(node, start, limit, step)
    else:
        count = _steps(node, start, limit, step)
    return node.emit.typed("range", node.given(0).dtype, (count,), start=start, limit=limit, step=step)


def _is_known(value: Value) -> bool:
    return value.payload is not None or value.integers() is not None


def _steps_of_sizes(node: Node, start: Size | float, limit: Size | float, step: Size | float) -> Size:
    """Return how many values a range between sizes has: a whole number of steps forward, since models mean so."""
    first, end, stride = (int(b) if isinstance(b, float) and b.is_integer() else b for b in (start, limit, step))
    if isinstance(first, float) or isinstance(end, float) or not is_number(stride) or stride < 1:
        node.refuse("bounds that depend on sizes: expected integers and a step above 0")
    return node.emit.dimensions.at_least_zero((end - first + stride - 1) // stride)


def _steps(node: Node, start: float, limit: float, step: float) -> int:
    """Return how many values a range has."""
    if not step:
        node.refuse("a range with the step 0")
    if isinstance(start, int) and isinstance(limit, int) and isinstance(step, int):
        return len(range(start, limit, step))
    count = (limit - start) / step
    if not math.isfinite(count):
        node.refuse(f"a range from {start} to {limit} by {step}, which has no end")
    return max(math.ceil(count), 0)


def _bound(node: Node, position: int) -> Size | float:
    value = node.given(position)
    if value.dtype.is_float and value.elements is None:
        return float(node.known_scalar(position) or 0.0)
    found = node.integers(position)
    return found[0] if found else 0


@translates("Shape", "Size")
def _shape(node: Node) -> Value:
    node.refuse("its input has no shape")
