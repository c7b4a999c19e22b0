"""Images of other sizes: rows first, then columns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.ops.catalog.resizing import nearest, neighbours
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("resize2d")
def resize2d(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Take rows and columns, or in mode linear their mixtures."""
    x, out = inputs[0], outputs[0]
    if not out.size:
        return in_order([])
    between = (*x.shape[:2], out.shape[2], x.shape[3])
    if call.settings.get("mode") == "linear":
        staging = Staging(workspace)
        dtype = compute_dtype(x.dtype)
        source, target, middle = staging.load(x, dtype), staging.store(out, dtype), workspace.take(between, dtype)
        return staging.around(*_mixed(source, middle, 2, workspace), *_mixed(middle, target, 3, workspace))
    middle = workspace.take(between, x.dtype)
    rows, columns = np.array(nearest(x.shape[2], out.shape[2])), np.array(nearest(x.shape[3], out.shape[3]))
    # Places are in range, and NumPy buffers the output where it checks them itself.
    return in_order(
        [
            partial(np.take, x, rows, axis=2, out=middle, mode="clip"),
            partial(np.take, middle, columns, axis=3, out=out, mode="clip"),
        ]
    )


def _mixed(source: Array, target: Array, axis: int, workspace: Workspace) -> list[BoundCall]:
    """Return calls that write the mixture of the two neighbours along an axis."""
    found = neighbours(source.shape[axis], target.shape[axis])
    low, high = np.array([place for place, _, _ in found]), np.array([place for _, place, _ in found])
    across = (-1, *(1 for _ in range(3 - axis)))
    share = np.array([distance for _, _, distance in found]).astype(target.dtype).reshape(across)
    rest, second = 1 - share, workspace.take(target.shape, target.dtype)
    return [
        partial(np.take, source, low, axis=axis, out=target, mode="clip"),
        partial(np.multiply, target, rest, out=target),
        partial(np.take, source, high, axis=axis, out=second, mode="clip"),
        partial(np.multiply, second, share, out=second),
        partial(np.add, target, second, out=target),
    ]
