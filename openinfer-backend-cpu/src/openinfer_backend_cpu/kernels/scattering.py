"""Copies of a tensor with updates at places that index inputs name."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ops.shapes import axis_of, integer
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype, copy_into, quieted
from openinfer_backend_cpu.targets import flat_places, tuple_places, tuples_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


_COMBINED: dict[object, np.ufunc] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_SKIPPING_NAN: dict[object, np.ufunc] = {"max": np.fmax, "min": np.fmin}


@kernel("scatter")
def scatter(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Updates at positions of ``indices``, with another place along an axis."""
    x, indices, updates = inputs
    axis = axis_of(integer(call.settings.get("axis"), "axis"), x.ndim)
    found, check = flat_places(x.shape, indices, axis, f"scatter along dim {axis} of {call.inputs[0]}", workspace)
    return _updated(call, x, check, (found.reshape(-1), 1), updates, outputs[0], workspace)


@kernel("scatter_nd")
def scatter_nd(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Slices replaced at tuples of places."""
    x, indices, updates = inputs
    indices = tuples_of(indices)
    found, check = tuple_places(x.shape, indices, 0, f"scatter_nd in {call.inputs[0]}", workspace)
    rest = math.prod(x.shape[indices.shape[-1] :])
    return _updated(call, x, check, (found.reshape(-1), rest), updates, outputs[0], workspace)


def _updated(
    call: OpCall,
    x: Array,
    check: list[BoundCall],
    where: tuple[Array, int],
    updates: Array,
    out: Array,
    workspace: Workspace,
) -> BoundCall:
    """Copy x and put updates to the numbers of slices of a size, one after the other: later ones come on top."""
    reduction = call.settings.get("reduction")
    dtype = x.dtype if reduction == "none" else compute_dtype(x.dtype)
    staging = Staging(workspace)
    given, target = staging.load(updates, dtype), staging.store(out, dtype)
    numbers, size = where
    copy = copy_into(target, x)
    if not given.size:
        return staging.around(*check, copy)
    slices = target.reshape(target.size // size, size)
    rows = given.reshape(numbers.size, size)
    if reduction == "none":
        return staging.around(*check, copy, partial(slices.__setitem__, numbers, rows))
    if dtype.kind != "f" or reduction not in _SKIPPING_NAN:
        return staging.around(*check, copy, partial(_COMBINED[reduction].at, slices, numbers, rows))
    _, make_quiet = quieted(target, workspace, in_place=True)
    rows, make_rows_quiet = quieted(rows, workspace, in_place=given is not updates)
    work = partial(_SKIPPING_NAN[reduction].at, slices, numbers, rows)
    return staging.around(*check, copy, make_quiet, make_rows_quiet, work)
