"""Schedules of running folds: the totals of many places side by side, each of which stores after every term."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.loops import Bind
from openinfer.schedule.folds import is_scan
from openinfer.schedule.loops import Loop, Schedule, distance, usual_extent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Fold, Stage
    from openinfer.layout import Layout

ROWS = 8
"""Rows whose totals are advanced in turns, where terms lie along a row: each waits for the addition before it."""


def scanned(stage: Stage, layouts: Mapping[str, Layout], target: TargetInfo, lanes: int) -> Schedule | None:
    """Return a schedule whose totals lie in lanes along the axis on which the result is contiguous.

    Neighbouring registers hold as much of that axis as there are registers for: so one step of the fold reads and
    writes memory that lies in a row. Where the folded axis is the contiguous one, several rows are copies instead.

    None: the fold is not a scan, or its result has no axis but the folded one.
    """
    fold = stage.fold
    if fold is None or not is_scan(fold) or not stage.axes:
        return None
    store = layouts[stage.tensor].address(stage.at)
    lane = next((axis for axis in stage.axes if store.coefficient(axis) == 1), None)
    outer = sorted(stage.axes, key=lambda axis: -distance(store, axis))
    if lane is None or usual_extent(lane) < 2 or not _is_even(stage, layouts, lane):
        return _in_rows(stage, outer, target)
    most = max(1, _registers(fold, target) // (2 * len(fold.totals)))
    vectors = ceil(usual_extent(lane) / lanes)
    copies = ceil(vectors / ceil(vectors / most))
    return Schedule(
        (
            *(Loop(axis) for axis in outer if axis != lane),
            Loop(lane, copies * lanes),
            *map(Loop, fold.axes),
            Loop(lane, lanes, Bind.UNROLL),
            Loop(lane, 1, Bind.LANES),
        )
    )


def _in_rows(stage: Stage, outer: list[Var], target: TargetInfo) -> Schedule | None:
    """Return a schedule of scalar totals of several rows."""
    fold, row = stage.fold, next((axis for axis in reversed(outer) if usual_extent(axis) > 1), None)
    if fold is None or row is None:
        return None
    rows = min(ROWS, usual_extent(row), max(1, _registers(fold, target) // len(fold.totals)))
    around = (Loop(axis) for axis in outer if axis != row)
    return Schedule((*around, Loop(row, rows), *map(Loop, fold.axes), Loop(row, 1, Bind.UNROLL)))


def _registers(fold: Fold, target: TargetInfo) -> int:
    """Return how many totals of a fold registers hold at once."""
    return min(target.for_totals(total.dtype).registers for total in fold.totals)


def _is_even(stage: Stage, layouts: Mapping[str, Layout], lane: Var) -> bool:
    """Return whether lanes read neighbours, or one element all."""
    steps = (
        layouts[element.tensor].address(element.at).coefficient(lane)
        for element in stage.elements
        if isinstance(element, Read) and element.tensor in layouts
    )
    return all(step in (0, 1) for step in steps)
