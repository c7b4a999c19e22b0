"""Ensembles of decision trees, walk by walk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Inputs = Sequence[Exact | None]


def tree_ensemble(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, feature, threshold, children, roots, weights, missing = cast("list[Any]", (*inputs, None)[:7])
    y, nodes = np.zeros((x.shape[0], weights.shape[1])), len(feature)
    for row in range(x.shape[0]):
        for root in roots:
            place = int(root)
            for _ in range(cast("int", call.settings["depth"])):
                if place >= nodes:
                    break
                node = max(place, 0)
                value = float(x[row, _nearest(feature[node], x.shape[1])])
                passes = math.isnan(value) and missing is not None and bool(missing[node])
                place = int(children[node, 0 if value <= float(threshold[node]) or passes else 1])
            y[row] += weights[_nearest(place - nodes, len(weights))]
    return (y,)


def _nearest(place: int, extent: int) -> int:
    return min(max(int(place), 0), extent - 1)


ORACLES: dict[str, Oracle] = {"tree_ensemble": tree_ensemble}
