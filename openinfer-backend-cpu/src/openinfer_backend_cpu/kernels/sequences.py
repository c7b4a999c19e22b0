"""Evenly spaced numbers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.ops.catalog.sequences import spacing
from openinfer.ops.shapes import axis_of, integer
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("range")
def spaced(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """start + i * step; integers wrap."""
    del inputs, workspace
    out, dtype = outputs[0], call.outputs[0].dtype
    start, step = spacing(call.settings, dtype)
    if dtype.is_float:
        return partial(np.copyto, out, _rounded(start + np.arange(out.size) * step, out.dtype))
    first, distance = (np.uint64(int(number) % 2**64) for number in (start, step))
    return partial(np.copyto, out, (first + np.arange(out.size, dtype=np.uint64) * distance).astype(out.dtype))


@kernel("iota")
def iota(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """The place along an axis; integers wrap."""
    del inputs, workspace
    out = outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), out.ndim)
    numbers = np.arange(out.shape[axis], dtype=np.int64)
    dtype = storage_dtype(call.outputs[0].dtype)
    along = _rounded(numbers, dtype) if call.outputs[0].dtype.is_float else numbers.astype(dtype)
    return partial(np.copyto, out, along.reshape(-1, *(1 for _ in range(out.ndim - 1 - axis))))


def _rounded(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Return numbers as floats of another type; low ones are rounded from f32, in which they count as computed."""
    return numbers.astype(dtype) if dtype.itemsize == 8 else numbers.astype(np.float32).astype(dtype)
