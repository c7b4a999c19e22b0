"""Schedules of stages without a fold: lanes along the axis on which the result is contiguous."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.expr.linear import linearise
from openinfer.loops import Bind
from openinfer.schedule.loops import Loop, Schedule, distance, usual_extent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.layout import Layout

MOST_COPIES = 4
"""Vector registers of one body, where its expression is short."""

SHORT = 8
"""Instructions of all copies of a body, up to which there are several."""


def in_lanes(stage: Stage, layouts: Mapping[str, Layout], lanes: int) -> Schedule | None:
    """Return a schedule in lanes; None: some element does not lie evenly along the axis on which the result does.

    The other axes have the order in which the result lies in memory.
    """
    store = layouts[stage.tensor].address(stage.at)
    lane = next((axis for axis in stage.axes if store.coefficient(axis) == 1), None)
    extent = 1 if lane is None else usual_extent(lane)
    if lane is None or extent < 2:
        return None
    if not all(_is_even(stage, number, layouts, lane) for number in range(len(stage.elements))):
        return None
    steps = sum(1 for i in linearise(stage.value).instructions if i.function not in ("input", "literal"))
    vectors = ceil(extent / lanes)
    most = max(1, min(MOST_COPIES, SHORT // max(1, steps)))
    copies = next(count for count in range(most, 0, -1) if vectors % count == 0 or vectors > 4 * count)
    outer = sorted((a for a in stage.axes if a != lane), key=lambda axis: -distance(store, axis))
    unrolled = [Loop(lane, lanes, Bind.UNROLL)] if copies > 1 else []
    return Schedule((*(Loop(axis) for axis in outer), Loop(lane, copies * lanes), *unrolled, Loop(lane, 1, Bind.LANES)))


def by_address(stage: Stage, layouts: Mapping[str, Layout]) -> Schedule:
    """Return a schedule without lanes that stores from the first address on; a short innermost axis is written out."""
    store = layouts[stage.tensor].address(stage.at)
    axes = sorted(stage.axes, key=lambda axis: -distance(store, axis))
    is_short = len(axes) > 1 and isinstance(axes[-1].extent, int) and 1 < axes[-1].extent <= SHORT
    last = Loop(axes[-1], 1, Bind.UNROLL if is_short else Bind.SERIAL)
    return Schedule((*(Loop(axis) for axis in axes[:-1]), last))


def _is_even(stage: Stage, number: int, layouts: Mapping[str, Layout], lane: Var) -> bool:
    element = stage.elements[number]
    if not isinstance(element, Read):
        return element.at.coefficient(lane) is not None
    if element.tensor not in layouts:
        return True
    return layouts[element.tensor].address(element.at).coefficient(lane) in (0, 1)
