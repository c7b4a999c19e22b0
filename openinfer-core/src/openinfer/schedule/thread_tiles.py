"""Schedules for devices of many threads: a tile of results for each thread, whose totals stay in registers.

Of a product, a thread with one result loads two elements for each term; one with 4 by 4 results loads eight for
sixteen.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.loops import Bind
from openinfer.schedule.loops import Loop, Schedule

if TYPE_CHECKING:
    from openinfer.affine import Var
    from openinfer.compute import Fold, Stage

TILES = ((4, 4), (4, 2), (2, 4), (2, 2))
"""Places along two axes that a thread computes, most first."""

FEWEST_TERMS = 16
"""Terms of a sum from which on loads matter more than the places that are computed side by side."""


def thread_tile(stage: Stage, busy: int) -> Schedule | None:
    """Return a schedule that computes a tile of places at a time, with the terms of each in the order of the stage.

    None where no element would be loaded for several places at once, where no tile fills the axes evenly, or where
    fewer than ``busy`` threads would be left.
    """
    fold = stage.fold
    if fold is None or not _has_tiles(stage, fold):
        return None
    extents = {axis: axis.extent for axis in stage.axes if isinstance(axis.extent, int)}
    across = stage.axes[-1]
    down = next((axis for axis in reversed(stage.axes[:-1]) if _shares(stage, axis, across)), None)
    if down is None or len(extents) < len(stage.axes):
        return None
    for rows, columns in TILES:
        fills = extents[down] % rows == 0 and extents[across] % columns == 0
        if fills and prod(extents.values()) >= busy * rows * columns:
            return _schedule(stage, fold, {down: rows, across: columns})
    return None


def _has_tiles(stage: Stage, fold: Fold) -> bool:
    """Return whether the results of a stage are independent sums that are long enough."""
    terms = prod(axis.extent if isinstance(axis.extent, int) else FEWEST_TERMS for axis in fold.axes)
    is_plain = not fold.running and len(fold.totals) == 1 and not stage.lookups and not stage.checks
    return is_plain and len(stage.axes) > 1 and terms >= FEWEST_TERMS


def _shares(stage: Stage, down: Var, across: Var) -> bool:
    """Return whether places along each of two axes load an element that those along the other do not."""
    used = [
        {axis for index in element.at for axis in (down, across) if axis in index.variables()}
        for element in stage.elements
        if isinstance(element, Read)
    ]
    return {down} in used and {across} in used


def _schedule(stage: Stage, fold: Fold, tile: dict[Var, int]) -> Schedule:
    places = [Loop(axis, tile.get(axis, 1)) for axis in stage.axes]
    copies = [Loop(axis, bind=Bind.UNROLL) for axis in tile]
    return Schedule((*places, *(Loop(axis) for axis in fold.axes), *copies))
