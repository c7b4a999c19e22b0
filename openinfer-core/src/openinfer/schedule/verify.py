"""Whether a schedule fits a stage: every place is visited once, sums keep the order that they must have."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from openinfer.compute import Order
from openinfer.loops import Bind
from openinfer.schedule.borders import padded_factor
from openinfer.schedule.errors import ScheduleError
from openinfer.schedule.folds import has_parts, is_scan, is_tileable, may_join_lanes
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Fold, Stage
    from openinfer.schedule.loops import Loop, Schedule


def verify(schedule: Schedule, stage: Stage, target: TargetInfo | None = None) -> None:
    """Check a schedule of a stage, whoever wrote it.

    Raises:
        ScheduleError: an axis is not walked, or its steps do not divide one another; a serial loop is inside of
            copies; lanes are not innermost; partial totals or another order where the fold allows neither; copies
            where places follow one another; more totals than registers; terms are left out that may not be zero.
    """
    _Check(schedule, stage).all(target)


class _Check:
    def __init__(self, schedule: Schedule, stage: Stage) -> None:
        self._schedule = schedule
        self._stage = stage
        self._fold = stage.fold
        self._folded: tuple[Var, ...] = () if stage.fold is None else stage.fold.axes

    def all(self, target: TargetInfo | None) -> None:
        loops = self._schedule.loops
        is_tiled = any(loop.is_copied or loop.axis in self._folded for loop in loops)
        self._steps((*self._stage.axes, *self._folded) if is_tiled else self._stage.axes, is_tiled=is_tiled)
        if not is_tiled:
            self._order_of_places()
            return
        self._nesting()
        if self._stage.lookups or self._stage.checks or self._stage.is_sequential:
            raise self._error(
                "places of a stage with lookups, checks or updates follow one another: no copies or lanes"
            )
        if self._fold is not None:
            self._terms(self._fold)
        padded = padded_factor(self._stage)
        if self._schedule.skip is not None and (padded is None or padded[0] != self._schedule.skip):
            raise self._error(f"terms past the border of element {self._schedule.skip} are not zero for certain")
        if target is None or self._fold is None:
            return
        most = target.for_totals(self._fold.totals[0].dtype).registers
        if self._totals() > most:
            raise self._error(f"{self._totals()} totals at once, the target has {most} registers")

    def _steps(self, axes: tuple[Var, ...], *, is_tiled: bool) -> None:
        walkable = set(axes)
        for loop in self._schedule.loops:
            if loop.axis not in walkable:
                raise self._error(f"{loop.axis.name} is not an axis: {', '.join(axis.name for axis in axes)}")
        for axis in axes:
            steps = [loop.step for loop in self._schedule.loops if loop.axis == axis]
            if not steps or steps[-1] != 1:
                raise self._error(f"the innermost loop over {axis.name} has step 1: found steps {steps}")
            for outer, inner in pairwise(steps):
                if outer % inner:
                    raise self._error(f"{axis.name} is walked in steps of {inner} inside of {outer}: no divisor")
            if not isinstance(axis.extent, int) and len(steps) > 1 and not is_tiled:
                raise self._error(f"{axis.name} is walked in steps, but its extent is known at run time only")

    def _order_of_places(self) -> None:
        is_ordered = self._stage.lookups or self._stage.is_sequential
        if is_ordered and [loop.axis for loop in self._schedule.loops] != list(self._stage.axes):
            raise self._error("places of a stage with lookups or updates are visited in row-major order")

    def _nesting(self) -> None:
        is_inside: Loop | None = None
        for number, loop in enumerate(self._schedule.loops):
            if loop.is_copied and self._schedule.span(number) is None:
                raise self._error(f"{loop.axis.name} is copied, but its extent is known at run time only")
            if loop.bind in (Bind.GROUP, Bind.LOCAL):
                raise self._error(
                    f"the loop over {loop.axis.name} is bound to threads, which a processor has no form for"
                )
            is_own = loop.axis not in self._folded
            if loop.bind is Bind.SERIAL and is_own and is_inside is not None:
                raise self._error(f"the serial loop over {loop.axis.name} is inside of a tile")
            if loop.is_copied or not is_own:
                is_inside = is_inside or loop
            if loop.bind is Bind.LANES and number < len(self._schedule.loops) - 1:
                raise self._error(f"lanes along {loop.axis.name} are not innermost")
            if loop.bind is Bind.SERIAL and any(
                outer.is_copied and outer.axis == loop.axis for outer in self._schedule.loops[:number]
            ):
                raise self._error(f"the serial loop over {loop.axis.name} is inside of copies along it")

    def _terms(self, fold: Fold) -> None:
        if not is_tileable(fold) and not is_scan(fold):
            raise self._error("a fold whose totals begin with the first term has no tiles")
        loops = self._schedule.loops
        if fold.running and any(loop.axis in fold.axes and (loop.is_copied or loop.step != 1) for loop in loops):
            raise self._error("a running fold stores after each term: its axes are walked one place at a time")
        lanes = self._schedule.lanes
        is_partial = any(loop.partial for loop in loops) or (lanes is not None and lanes.axis in fold.axes)
        if any(loop.partial and (loop.axis not in fold.axes or loop.bind is not Bind.UNROLL) for loop in loops):
            raise self._error("partial totals are copies along a folded axis")
        if is_partial and not has_parts(fold):
            raise self._error("the order of the fold, or what it combines, allows no partial totals")
        if any(loop.joined for loop in loops) and not may_join_lanes(self._schedule, fold):
            raise self._error("joined lanes are those of a folded axis, along which integers are added up")
        if fold.order is Order.SEQUENTIAL:
            walked = [loop.axis for loop in self._walked(fold)]
            if self._schedule.stream is not None or walked != sorted(walked, key=fold.axes.index):
                order = ", ".join(axis.name for axis in fold.axes)
                raise self._error(f"a sequential fold visits its terms in the order of {order}, without a stream")

    def _walked(self, fold: Fold) -> list[Loop]:
        """Return the loops over folded axes in the order in which they run: serial ones lie outside."""
        loops = [loop for loop in self._schedule.loops if loop.axis in fold.axes]
        return sorted(loops, key=lambda loop: loop.is_copied)

    def _totals(self) -> int:
        """Return how many registers hold totals."""
        if self._fold is None:
            return 0
        counts = [
            (self._schedule.span(number) or 1) // loop.step
            for number, loop in enumerate(self._schedule.loops)
            if loop.bind is Bind.UNROLL and (loop.partial or loop.axis not in self._folded)
        ]
        return prod(counts) * len(self._fold.totals)

    def _error(self, message: str) -> ScheduleError:
        return ScheduleError(f"{self._stage.tensor}: {message} ({schedule_text(self._schedule)})")
