"""Elements at the positions in index inputs."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.ops.catalog.indexing import hot_value
from openinfer.ops.shapes import axis_of, integer
from openinfer_backend_cpu.indices import places
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.targets import flat_places, reshaped, tuple_places, tuples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("gather")
def gather(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Slices of x along an axis."""
    x, indices = inputs[0], inputs[1]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), x.ndim)
    found, check = places(indices, x.shape[axis], f"gather along dim {axis} of {call.inputs[0]}", workspace)
    return in_order([check, _taken(x, found, axis, outputs[0])])


@kernel("embedding")
def embedding(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Rows of a table."""
    ids, table = inputs[0], inputs[1]
    found, check = places(ids, table.shape[0], f"embedding in {call.inputs[1]}", workspace, negative=False)
    return in_order([check, _taken(table, found, 0, outputs[0])])


def _taken(x: Array, found: Array, axis: int, out: Array) -> BoundCall:
    if not out.size:
        return in_order([])
    # Places are checked, and NumPy buffers the output where it checks them itself.
    return partial(np.take, x, found, axis=axis, out=out, mode="clip")


@kernel("gather_elements")
def gather_elements(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """The element of x at each position, with another place along an axis."""
    x, indices = inputs[0], inputs[1]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), x.ndim)
    what = f"gather_elements along dim {axis} of {call.inputs[0]}"
    found, check = flat_places(x.shape, indices, axis, what, workspace)
    flat, copy = reshaped(x, (x.size,), workspace)
    return in_order([*check, *copy, _taken(flat, found, 0, outputs[0])])


@kernel("gather_nd")
def gather_nd(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Slices of x at tuples of places."""
    x, indices, out = inputs[0], tuples_of(inputs[1]), outputs[0]
    batch, length = integer(call.settings.get("batch_dims"), "batch_dims"), indices.shape[-1]
    found, check = tuple_places(x.shape, indices, batch, f"gather_nd in {call.inputs[0]}", workspace)
    count, rest = math.prod(x.shape[: batch + length]), math.prod(x.shape[batch + length :])
    slices, copy = reshaped(x, (count, rest), workspace)
    target = out.reshape(found.size, rest)
    return in_order([*check, *copy, _taken(slices, found.reshape(-1), 0, target)])


@kernel("one_hot")
def one_hot(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """``on`` where the place along the axis is the index, or the index counted from the end."""
    indices, out, dtype = inputs[0], outputs[0], call.outputs[0].dtype
    axis = axis_of(integer(call.settings.get("axis"), "axis"), out.ndim)
    depth = out.shape[axis]
    on, off = (np.array(hot_value(call.settings, name, dtype)).astype(out.dtype) for name in ("on", "off"))
    signed = indices.dtype.kind == "i"
    wide = workspace.take(indices.shape, np.dtype(np.int64 if signed else np.uint64))
    mask = workspace.take(out.shape, np.dtype(np.bool_))
    numbers = np.arange(depth, dtype=wide.dtype).reshape(-1, *(1 for _ in range(out.ndim - 1 - axis)))

    def run() -> None:
        np.copyto(wide, indices, casting="unsafe")
        if signed:
            np.add(wide, depth, out=wide, where=wide < 0)
        np.equal(np.expand_dims(wide, axis), numbers, out=mask)
        np.copyto(out, off)
        np.copyto(out, on, where=mask)

    return run
