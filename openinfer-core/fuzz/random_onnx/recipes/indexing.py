"""Operators that read or write at places that indices name, and order along axes."""

from __future__ import annotations

import math

import numpy as np

from random_onnx.calls import Call, ImpossibleError
from random_onnx.graphs import Array
from random_onnx.recipe_registry import draws


def _indices(call: Call, name: str, extent: int, shape: tuple[int, ...], *, unique: int | None = None) -> Array:
    """Return indices below an extent, at times negative; ``unique`` is an axis along which none is repeated."""
    generator = np.random.default_rng(call.random.randrange(1 << 32))
    if not extent and math.prod(shape):
        raise ImpossibleError("an index into no elements")
    indices: Array = generator.integers(0, max(extent, 1), shape)
    if unique is not None and shape:
        count = shape[unique]
        rows = np.array(
            [generator.permutation(max(extent, count))[:count] for _ in range(math.prod(shape) // max(count, 1))]
        )
        others = [n for axis, n in enumerate(shape) if axis != unique]
        indices = np.moveaxis(rows.reshape(*others, count), -1, unique) if rows.size else indices
    if call.schema.since_version >= 11 and call.chance(0.4):
        indices = np.where(generator.random(shape) < 0.5, indices - extent, indices)
    kinds = [dtype for dtype in call.types(name) if dtype.itemsize >= 4]
    return np.asarray(indices).astype(call.random.choice(kinds))


@draws("Gather")
def _gather(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3, 4))
    axis = call.axis(array.ndim)
    shape = call.shape((0, 1, 1, 2))
    call.add("indices", _indices(call, "indices", array.shape[axis or 0], shape))


@draws("GatherElements")
def _gather_elements(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3))
    axis = call.axis(array.ndim) or 0
    shape = tuple(
        call.extent() if number == axis else call.random.randint(min(extent, 1), extent)
        for number, extent in enumerate(array.shape)
    )
    call.add("indices", _indices(call, "indices", array.shape[axis], shape))


def _tuples(call: Call, array: Array, *, batch: int = 0, unique: bool = False) -> Array:
    """Return tuples of indices; unique ones differ in the flat place."""
    depth = call.random.randint(1, array.ndim - batch)
    extents = array.shape[batch : batch + depth]
    lead = (*array.shape[:batch], *(call.extent(most=3) for _ in range(call.random.randint(0, 2))))
    count, total = math.prod(lead), math.prod(extents)
    generator = np.random.default_rng(call.random.randrange(1 << 32))
    if unique:
        lead = (min(count, total),)
        flat: Array = generator.permutation(total)[: lead[0]]
    else:
        flat = generator.integers(0, max(total, 1), count)
    if not flat.size:
        return np.zeros((*lead, depth), np.int64)
    if not total:
        raise ImpossibleError("an index into no elements")
    places = np.stack(np.unravel_index(flat.reshape(-1), extents), -1).reshape(*lead, depth)
    if call.schema.since_version >= 12 and call.chance(0.3):
        places = np.where(generator.random(places.shape) < 0.5, places - np.array(extents), places)
    return places.astype(np.int64)


@draws("GatherND")
def _gather_nd(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3, 4))
    batch = call.random.randint(0, array.ndim - 1) if call.chance(0.3) else 0
    if not call.set("batch_dims", batch, 1.0 if batch else 0.2):
        batch = 0
    call.add("indices", _tuples(call, array, batch=batch))


REDUCTIONS = ("none", "none", "add", "mul", "max", "min")


def _reduction(call: Call) -> str:
    chosen = call.random.choice(REDUCTIONS)
    return chosen if chosen != "none" and call.set("reduction", chosen) else "none"


@draws("ScatterElements", "Scatter")
def _scatter_elements(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3))
    axis = call.axis(array.ndim) or 0
    reduction = _reduction(call)
    shape = tuple(call.random.randint(min(extent, 1), extent) for extent in array.shape)
    unique = axis if reduction == "none" else None
    call.add("indices", _indices(call, "indices", array.shape[axis], shape, unique=unique))
    call.take("updates", shape=shape)


@draws("ScatterND")
def _scatter_nd(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3))
    reduction = _reduction(call)
    indices = _tuples(call, array, unique=reduction == "none")
    call.add("indices", indices)
    call.take("updates", shape=(*indices.shape[:-1], *array.shape[indices.shape[-1] :]))


@draws("TensorScatter")
def _tensor_scatter(call: Call) -> None:
    array = call.take("past_cache", ranks=(3, 4))
    axis = -2
    shape = list(array.shape)
    shape[axis] = call.random.randint(1, max(shape[axis], 1))
    call.take("update", shape=shape)
    last = array.shape[axis] - shape[axis]
    call.add("write_indices", np.full(array.shape[0], max(last, 0), np.int64))
    call.set("axis", axis, 0.5)


@draws("Compress")
def _compress(call: Call) -> None:
    array = call.take("input", ranks=(1, 2, 3))
    axis = call.axis(array.ndim)
    extent = array.size if axis is None else array.shape[axis]
    call.add("condition", call.drawn(np.dtype(np.bool_), (call.random.randint(0, min(extent, 20)),)), known=True)


@draws("OneHot")
def _one_hot(call: Call) -> None:
    call.prefer("indices", np.int64, np.int32, np.float32)
    depth = call.extent()
    shape = call.shape((0, 1, 2, 3))
    generator = np.random.default_rng(call.random.randrange(1 << 32))
    call.add("indices", generator.integers(-depth - 1, depth + 2, shape).astype(call.dtype("indices")))
    kinds = [dtype for dtype in call.types("depth") if dtype.name in ("int64", "int32", "float32")]
    call.add("depth", np.array(call.random.choice((depth, [depth]))).astype(call.random.choice(kinds)), known=True)
    call.take("values", shape=(2,), known=True)
    call.axis(len(shape) + 1)


@draws("TopK")
def _top_k(call: Call) -> None:
    array = call.take("X", ranks=(1, 2, 3))
    axis = call.axis(array.ndim)
    extent = array.shape[-1 if axis is None else axis]
    count = call.random.randint(0 if call.chance(0.1) else min(1, extent), extent)
    call.ints("k" if "k" in call.schema.attributes else "K", count if "k" in call.schema.attributes else [count])
    call.flag("largest")
    call.set("sorted", 1, 0.3)
    call.outputs = 2


@draws("CumSum", "CumProd")
def _cumulative(call: Call) -> None:
    array = call.take("x", ranks=(1, 2, 3, 4))
    axis = call.random.randrange(-array.ndim, array.ndim)
    call.add("axis", np.array(axis, call.random.choice((np.int64, np.int32))), known=True)
    call.flag("exclusive")
    call.flag("reverse")


@draws(
    *(f"Reduce{name}" for name in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"])
)
def _reduce(call: Call) -> None:
    array = call.take("data")
    call.flag("keepdims", 0.6)
    if call.chance(0.75):
        axes = call.random.sample(
            range(array.ndim), call.random.randint(0 if call.chance(0.2) else min(array.ndim, 1), array.ndim)
        )
        negative = call.schema.since_version >= 11
        call.ints("axes", [axis - (array.ndim if negative and call.chance(0.4) else 0) for axis in axes])
    call.flag("noop_with_empty_axes", 0.3)


@draws("ArgMax", "ArgMin")
def _arg(call: Call) -> None:
    array = call.take("data", ranks=(1, 2, 3, 4))
    call.axis(array.ndim)
    call.flag("keepdims", 0.6)
    call.flag("select_last_index", 0.4)


@draws("Unique")
def _unique(call: Call) -> None:
    array = call.take("X")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ImpossibleError("onnxruntime sorts by <, for which NaN equals everything")
    call.flag("sorted", 0.5)
    if array.ndim == 1 and call.chance(0.3):
        call.attributes["axis"] = call.random.choice((0, -1))
    call.outputs = call.random.randint(1, 4)
