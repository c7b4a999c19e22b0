"""Choosing the schedule of a stage from the distances between the elements that it touches."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, TypeVar

from openinfer.compute import Read
from openinfer.compute.stage import expressions_of
from openinfer.dtypes import F32
from openinfer.expr.linear import linearise
from openinfer.schedule.elementwise import by_address, in_lanes
from openinfer.schedule.loops import Loop, Schedule, plain, usual_extent
from openinfer.schedule.operands import used_layouts
from openinfer.schedule.row_sums import along_rows
from openinfer.schedule.scans import scanned
from openinfer.schedule.tiling import estimated, ranked, tiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout

_Target = TypeVar("_Target", "TargetInfo", "TargetInfo | None")

STRIP = 16
"""Elements of a strip: those of f32 that a cache line of 64 bytes holds."""


def choose(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo | None = None,
    within: Mapping[Var, int] | None = None,
    skip: int | None = None,
) -> Schedule:
    """Return the schedule of a stage for a processor with caches, and for its vector registers where a target is given.

    Without a target places are visited in row-major order. Where that would use one element of each cache line of an
    operand, as in a transposition, an axis along which the operand is contiguous is walked in strips, the strip
    innermost, so that a line is used whole before it leaves the cache.

    With a target, lanes lie along an axis on which the result is contiguous, or along a folded one; folds are cut into
    tiles (`openinfer.schedule.tiling`). Folds in sequential order keep it.

    Args:
        layouts: where tensors lie, by name. Operands that it does not have are constants that `packing` places for the
            schedule.
        within: how many places of an axis are computed at a time, where loops around the stage walk it.
        skip: number of an element past whose border terms may be left out (`openinfer.schedule.borders`).
    """
    counted = () if within is None else tuple(within.items())
    target = _machine(stage, target)
    return _chosen(stage, used_layouts(stage, layouts), target, counted, skip)


@lru_cache(maxsize=4096)
def _chosen(
    stage: Stage,
    laid_out: tuple[tuple[str, Layout], ...],
    target: TargetInfo | None,
    counted: tuple[tuple[Var, int], ...],
    skip: int | None,
) -> Schedule:
    layouts, within = dict(laid_out), dict(counted)
    varying = [axis for axis in stage.all_axes if not isinstance(axis.extent, int)]
    if target is not None and (_may_vary(stage) if varying else _is_regular(stage)):
        lanes = target.lanes(_itemsize(stage))
        within = {**within, **{axis: usual_extent(axis) for axis in varying}}
        schedule = None if varying else along_rows(stage, layouts, skip)
        if schedule is None:
            schedule = (
                in_lanes(stage, layouts, lanes)
                if stage.fold is None
                else tiled(stage, layouts, target, lanes, within, skip)
            )
        if schedule is not None:
            return schedule
    if target is not None and _is_running(stage):
        schedule = scanned(stage, layouts, target, target.lanes(_itemsize(stage)))
        if schedule is not None:
            return schedule
    axes = stage.axes
    if stage.fold is not None or stage.is_sequential or stage.lookups or not axes:
        return plain(axes)
    for element in stage.elements:
        if isinstance(element, Read) and element.tensor in layouts:
            contiguous = _contiguous_axis(axes, layouts[element.tensor].address(element.at))
            if contiguous is not None:
                return _strips(axes, contiguous)
    return plain(axes) if target is None or not _is_regular(stage) else by_address(stage, layouts)


def estimate(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    within: Mapping[Var, int] | None = None,
    skip: int | None = None,
) -> float | None:
    """Return how many cycles a stage takes under the schedule that `choose` returns, which has the same arguments.

    None: the model has no opinion, as of a stage whose places follow one another.
    """
    if not _is_regular(stage):
        return None
    target = _machine(stage, target)
    lanes = target.lanes(_itemsize(stage))
    if stage.fold is not None:
        schedule = choose(stage, layouts, target, within, skip)
        return estimated(stage, layouts, target, lanes, schedule, within)
    extents = {axis: axis.extent for axis in stage.axes if isinstance(axis.extent, int)} | dict(within or {})
    width = lanes if in_lanes(stage, layouts, lanes) is not None else 1
    return prod(extents.values()) / width * max(1.0, len(stage.elements) / target.loads)


def equals(
    stage: Stage, layouts: Mapping[str, Layout], target: TargetInfo, skip: int | None = None, share: float = 0.0
) -> tuple[Schedule, ...]:
    """Return the schedule that `choose` returns, which has the same arguments, and others that take no longer.

    Args:
        share: the part of its time by which the others may be slower.
    """
    return _equals(stage, used_layouts(stage, layouts), _machine(stage, target), skip, share) or (
        choose(stage, layouts, target, None, skip),
    )


@lru_cache(maxsize=4096)
def _equals(
    stage: Stage, laid_out: tuple[tuple[str, Layout], ...], target: TargetInfo, skip: int | None, share: float
) -> tuple[Schedule, ...]:
    if stage.fold is None or not _is_regular(stage) or along_rows(stage, dict(laid_out), skip) is not None:
        return ()
    by_cost = ranked(stage, dict(laid_out), target, target.lanes(_itemsize(stage)), skip)
    return tuple(schedule for cycles, schedule in by_cost if cycles <= (1 + share) * by_cost[0][0])


def compared(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    schedule: Schedule,
    within: Mapping[Var, int] | None = None,
) -> tuple[float, tuple[float, Schedule] | None] | None:
    """Return the cycles of a schedule by the cost model, and the best other one with its cycles, if there is another.

    None: the model has no opinion, as of a stage without a fold. The arguments are those of `choose`.
    """
    if not _is_regular(stage):
        return None
    target = _machine(stage, target)
    lanes = target.lanes(_itemsize(stage))
    cycles = estimated(stage, layouts, target, lanes, schedule, within)
    if cycles is None:
        return None
    others = (other for other in ranked(stage, layouts, target, lanes, schedule.skip, within) if other[1] != schedule)
    return cycles, next(others, None)


def _machine(stage: Stage, target: _Target) -> _Target:
    """Return the machine that computes a stage: sums of f32 are worth vectors where these are for inner loops alone."""
    if target is None or not target.mve or stage.fold is None:
        return target
    return target.in_vectors if all(total.dtype is F32 for total in stage.fold.totals) else target


def _is_regular(stage: Stage) -> bool:
    """Return whether places may be visited several at once: nothing is looked up, checked, or updated in order."""
    if stage.lookups or stage.checks or stage.is_sequential:
        return False
    return all(isinstance(axis.extent, int) for axis in stage.all_axes) and _is_free(stage)


def _may_vary(stage: Stage) -> bool:
    """Return whether places may be visited several at once where extents are known at run time only.

    Borders are found where all extents are numbers.
    """
    if stage.lookups or stage.checks or stage.is_sequential or not _is_free(stage):
        return False
    return not any(isinstance(element, Read) and element.guards for element in stage.elements)


def _is_running(stage: Stage) -> bool:
    """Return whether totals run on, and whether several places may be visited at once all the same."""
    fold = stage.fold
    return (
        fold is not None
        and fold.running
        and not (stage.lookups or stage.checks or stage.is_sequential)
        and not any(axis.extent == 0 for axis in fold.axes)
        and not any(isinstance(element, Read) and element.guards for element in stage.elements)
        and _has_whole_elements(stage)
    )


def _is_free(stage: Stage) -> bool:
    """Return whether totals do not run on, and no element is a part of a byte."""
    fold = stage.fold
    if fold is not None and (fold.running or any(axis.extent == 0 for axis in fold.axes)):
        return False
    return _has_whole_elements(stage)


def _has_whole_elements(stage: Stage) -> bool:
    """Return whether no element is a part of a byte."""
    types = [i.dtype for value in expressions_of(stage) for i in linearise(value).instructions]
    return not any(dtype.is_packed for dtype in types)


def _itemsize(stage: Stage) -> int:
    """Return the bytes of the widest type in the arithmetic of a stage."""
    values = expressions_of(stage)
    return max(-(-i.dtype.bits // 8) for value in values for i in linearise(value).instructions)


def _contiguous_axis(axes: Sequence[Var], address: Index) -> Var | None:
    """Return the axis along which an operand is contiguous, where the last axis steps from line to line."""
    last = axes[-1]
    if abs(address.coefficient(last) or 0) < STRIP or not _is_long(last):
        return None
    return next((axis for axis in axes[:-1] if address.coefficient(axis) == 1 and _is_long(axis)), None)


def _is_long(axis: Var) -> bool:
    return isinstance(axis.extent, int) and axis.extent >= 2 * STRIP


def _strips(axes: Sequence[Var], axis: Var) -> Schedule:
    outer = (Loop(other, STRIP if other == axis else 1) for other in axes)
    return Schedule((*outer, Loop(axis)))
