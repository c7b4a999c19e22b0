"""Ensembles of decision trees: walks of many rows and trees, a step at a time."""

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
    _Comparison: TypeAlias = Callable[[Array, Array], npt.NDArray[np.bool_]]

MOST_WALKS = 1 << 14
"""Walks that are taken together, all rows of a tree before the next: more no longer fit the caches."""


@kernel("tree_ensemble")
def tree_ensemble(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Sums of the weights of the leaves where walks end, tree by tree."""
    del workspace
    x, feature, threshold, children, roots, weights, *missing = inputs
    (y,), nodes, depth = outputs, len(feature), integer(call.settings.get("depth"), "depth")

    def run() -> None:
        goes_left = _comparison(x, np.clip(feature, 0, x.shape[1] - 1), threshold, *missing)
        y.fill(0)
        for first in range(0, len(x), MOST_WALKS):
            rows = np.arange(first, min(first + MOST_WALKS, len(x)))
            count = max(MOST_WALKS // len(rows), 1)
            for some in (roots[start : start + count] for start in range(0, len(roots), count)):
                ends = _ends(some, children, rows, depth, goes_left)
                of_trees = weights[np.clip(ends - nodes, 0, len(weights) - 1)]
                # A sum of its own may add pairs; trees are added one after the other.
                for added in of_trees.reshape(len(some), len(rows), -1):
                    y[rows[0] : rows[-1] + 1] += added

    return run


def _ends(roots: Array, children: Array, rows: Array, depth: int, goes_left: _Comparison) -> Array:
    """Return where walks end, tree by tree and row by row."""
    nodes, walks = len(children), np.tile(rows, len(roots))
    places = np.repeat(roots.astype(np.int64), len(rows))
    moving = np.arange(len(places))
    for _ in range(depth):
        moving = moving[places[moving] < nodes]
        if not moving.size:
            break
        node = np.maximum(places[moving], 0)
        places[moving] = children[node, np.where(goes_left(walks[moving], node), 0, 1)]
    return places


def _comparison(x: Array, columns: Array, threshold: Array, missing: Array | None = None) -> _Comparison:
    """Return what says of each row whether it goes left at a node."""

    def goes_left(rows: Array, node: Array) -> npt.NDArray[np.bool_]:
        values = x[rows, columns[node]]
        is_below = values <= threshold[node]
        return is_below if missing is None else is_below | (missing[node] & np.isnan(values))

    return goes_left
