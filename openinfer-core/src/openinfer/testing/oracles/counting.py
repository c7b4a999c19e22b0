"""Elements and boxes that are counted, one by one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from openinfer.dtypes import I64
from openinfer.testing.result_types import fixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes

    Inputs = Sequence[Exact | None]
    Corners = tuple[float, float, float, float]


def nonzero(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    (x,) = cast("list[Exact]", inputs)
    return _counted([place for place in np.ndindex(x.shape) if x[place] != 0], call)


def masked_select(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, mask = cast("list[Exact]", inputs)
    return _counted([x[place] for place in np.ndindex(mask.shape) if mask[place]], call)


def _counted(rows: Sequence[object], call: OpCall) -> tuple[Exact, ...]:
    """Return rows, and how many there are."""
    kind = call.outputs[0]
    result = np.zeros(
        (len(rows), *kind.shape[1:]), float if kind.dtype.is_float else bool if kind.dtype.name == "bool" else object
    )
    for number, row in enumerate(rows):
        result[number] = row
    return result, np.array(len(rows), object)


def unique(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    (x,) = cast("list[Exact]", inputs)
    members: dict[float, list[int]] = {}
    unordered: list[int] = []
    for place, element in enumerate(cast("list[float]", x.tolist())):
        (unordered if math.isnan(element) else members.setdefault(element, [])).append(place)
    groups = sorted(members.items())
    if unordered:
        groups.append((math.nan, unordered))
    first = [x[places[0]] for _, places in groups]
    inverse = np.zeros(x.size, object)
    for number, (_, places) in enumerate(groups):
        inverse[places] = number
    values, n = _counted(first, call)
    counts = np.array([len(places) for _, places in groups], object)
    return values, n, counts, np.array([places[0] for _, places in groups], object), inverse


def _unique_types(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    del declared
    return [x.dtype for x in call.inputs if x is not None] + [I64] * 4


def _selected_types(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    del declared
    return [x.dtype for x in call.inputs[:1] if x is not None] + [I64]


def nms(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    boxes, scores = cast("list[Exact]", inputs)
    rows = [
        (b, c, place)
        for b in range(scores.shape[0])
        for c in range(scores.shape[1])
        for place in _kept([_corners(box, call) for box in boxes[b]], scores[b, c].tolist(), call)
    ]
    return _counted(rows, call)


def _kept(boxes: Sequence[Corners], scores: list[float], call: OpCall) -> list[int]:
    """Go through boxes by falling score, and keep each that overlaps none that is kept."""
    threshold, iou = call.settings["score_threshold"], _rounded(cast("float", call.settings["iou_threshold"]), call)
    candidates = [
        place
        for place, score in enumerate(scores)
        if threshold is None or score > _rounded(cast("float", threshold), call)
    ]
    kept: list[int] = []
    for place in sorted(candidates, key=lambda place: (-scores[place], place)):
        if len(kept) < cast("int", call.settings["max_output_boxes"]) and not any(
            _overlap(boxes[place], boxes[other]) > iou for other in kept
        ):
            kept.append(place)
    return kept


def _rounded(value: float, call: OpCall) -> float:
    kind = call.inputs[1]
    return float(np.float32(value)) if kind is not None and kind.dtype.name == "f32" else float(value)


def _corners(box: Exact, call: OpCall) -> Corners:
    a, b, c, d = map(float, box)
    if call.settings["box_format"] == "center":
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(one: Corners, other: Corners) -> float:
    """Return intersection over union; 0 where boxes do not meet, or one has no area."""
    sides = [min(one[n + 2], other[n + 2]) - max(one[n], other[n]) for n in (0, 1)]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    if min(sides) <= 0 or min(areas) <= 0:
        return 0
    common = sides[0] * sides[1]
    return common / (areas[0] + areas[1] - common)


ORACLES: dict[str, Oracle] = {
    "nonzero": nonzero,
    "masked_select": masked_select,
    "unique": unique,
    "nms": nms,
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "nonzero": fixed(I64, I64),
    "masked_select": _selected_types,
    "unique": _unique_types,
    "nms": fixed(I64, I64),
}
