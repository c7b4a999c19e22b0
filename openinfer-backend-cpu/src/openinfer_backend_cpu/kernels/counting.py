"""Elements and boxes that are counted; rows after the last are zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer_backend_cpu.kernels.scans import sort_keys
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("nonzero")
def nonzero(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Places of the elements that are not zero."""
    del call, workspace
    x, (places, n) = inputs[0], outputs
    return lambda: _store(np.argwhere(x != 0), places, n)


@kernel("masked_select")
def masked_select(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Elements, or slices, where the mask is true."""
    del call, workspace
    (x, mask), (values, n) = inputs, outputs
    return lambda: _store(x[mask], values, n)


@kernel("unique")
def unique(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Different elements in order, how often each occurs, its first place, and which one each place has."""
    del call, workspace
    x, (values, n, counts, indices, inverse) = inputs[0], outputs

    def run() -> None:
        keys = sort_keys(x, descending=False)
        order = np.argsort(keys, stable=True)
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = keys[order[1:]] != keys[order[:-1]]
        groups = np.cumsum(starts) - 1
        places = order[starts]
        _store(x[places], values, n)
        _store(np.bincount(groups), counts, n)
        _store(places, indices, n)
        inverse[order] = groups

    return run


def _store(rows: Array, result: Array, n: Array) -> None:
    result[: len(rows)] = rows
    result[len(rows) :] = 0
    n[...] = len(rows)


@kernel("nms")
def nms(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Boxes that are kept, class by class."""
    del workspace
    (boxes, scores), (selected, n) = inputs, outputs
    settings = call.settings
    threshold, limit = settings.get("score_threshold"), cast("float", settings.get("iou_threshold"))
    most, dtype = cast("int", settings.get("max_output_boxes")), scores.dtype.type

    def run() -> None:
        rows: list[tuple[int, int, int]] = []
        for b in range(scores.shape[0]):
            low, high = _ends(boxes[b], is_centred=settings.get("box_format") == "center")
            for c, row in enumerate(scores[b]):
                free = np.ones(row.shape, np.bool_) if threshold is None else row > dtype(cast("float", threshold))
                rows += ((b, c, place) for place in _kept(row, free, low, high, dtype(limit), most))
        _store(np.array(rows, np.int64).reshape(-1, 3), selected, n)

    return run


def _ends(boxes: Array, *, is_centred: bool) -> tuple[Array, Array]:
    """Return the least and greatest coordinates of boxes: [N, 2] each."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if is_centred:
        half = second / second.dtype.type(2)
        return first - half, first + half
    return np.fmin(first, second), np.fmax(first, second)


def _kept(scores: Array, free: Array, low: Array, high: Array, limit: np.floating[Any], most: int) -> list[int]:
    """Return the best box that is free again and again, without those that overlap it by more than ``limit``."""
    sides = high - low
    areas = sides[:, 0] * sides[:, 1]
    kept: list[int] = []
    left = np.flatnonzero(free)
    while left.size and len(kept) < most:
        # No score is greater than a NaN that comes first.
        best = left[0] if np.isnan(scores[left[0]]) else left[np.nanargmax(scores[left])]
        kept.append(int(best))
        common = np.fmin(high[left], high[best]) - np.fmax(low[left], low[best])
        shared = common[:, 0] * common[:, 1]
        union = areas[best] + areas[left] - shared
        meets = (common > 0).all(axis=1) & (shared > 0) & (areas[left] > 0) & (areas[best] > 0) & (union > 0)
        left = left[~(meets & (shared / union > limit)) & (left != best)]
    return kept
