"""Ensembles of decision trees: the walks of all rows, a step at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ops.shapes import integer
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("tree_ensemble")
def tree_ensemble(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Sums of the weights of the leaves where walks end, tree by tree."""
    del workspace
    x, feature, threshold, children, roots, weights, *missing = inputs
    (y,), nodes, depth = outputs, len(feature), integer(call.settings.get("depth"), "depth")

    def run() -> None:
        goes_left = _comparison(x, np.clip(feature, 0, x.shape[1] - 1), threshold, *missing)
        y.fill(0)
        for root in roots:
            places = np.full(len(x), root, np.int64)
            for _ in range(depth):
                (rows,) = np.nonzero(places < nodes)
                if not rows.size:
                    break
                node = np.maximum(places[rows], 0)
                places[rows] = children[node, np.where(goes_left(rows, node), 0, 1)]
            np.add(y, weights[np.clip(places - nodes, 0, len(weights) - 1)], out=y)

    return run


def _comparison(
    x: Array, columns: Array, threshold: Array, missing: Array | None = None
) -> Callable[[Array, Array], npt.NDArray[np.bool_]]:
    """Return what says of each row whether it goes left at a node."""

    def goes_left(rows: Array, node: Array) -> npt.NDArray[np.bool_]:
        values = x[rows, columns[node]]
        is_below = values <= threshold[node]
        return is_below if missing is None else is_below | (missing[node] & np.isnan(values))

    return goes_left
