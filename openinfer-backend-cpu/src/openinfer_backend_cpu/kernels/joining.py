"""Several tensors side by side in one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.ops.shapes import axis_of, integer
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("concat")
def concat(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy each input to its part of the result."""
    del workspace
    out = outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), out.ndim)
    copies: list[BoundCall] = []
    start = 0
    for x in inputs:
        end = start + x.shape[axis]
        copies.append(partial(np.copyto, out[(slice(None),) * axis + (slice(start, end), ...)], x))
        start = end
    return in_order(copies)


@kernel("stack")
def stack(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy each input to its place along the axis of the result."""
    del workspace
    out = outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), out.ndim)
    parts = np.moveaxis(out, axis, 0)
    return in_order([partial(np.copyto, parts[(place, ...)], x) for place, x in enumerate(inputs)])
