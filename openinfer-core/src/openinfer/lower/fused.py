"""Several stages under common loops: each step computes what the later stages read in it, in small buffers.

Steps of the innermost loop may need places of an earlier stage that the step before has computed. With ``sliding``
these are kept: the buffer is a ring, in which the new places take the room of those that nobody reads any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.compute import Read
from openinfer.layout import Layout
from openinfer.loops import Bind, For
from openinfer.lower.accesses import access
from openinfer.lower.placed import placed
from openinfer.lower.walks import walked
from openinfer.schedule import Loop, ScheduleError, choose
from openinfer.schedule.folds import is_tileable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Stage
    from openinfer.loops import Buffer, Statement
    from openinfer.lower.names import Names
    from openinfer.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Part:
    """The places of a stage that one step computes.

    Attributes:
        at: the first place of each axis that is not computed whole.
        left: how many places from there on.
    """

    at: Mapping[Var, Index]
    left: Mapping[Var, int]


@dataclass(frozen=True, slots=True)
class Ring:
    """The places of a stage along one axis that the next step of the innermost loop needs again.

    Attributes:
        kept: how many there are.
        new: how many more the next step computes.
    """

    axis: Var
    kept: int
    new: int


def windows(
    computation: Computation, loops: Sequence[Loop], layouts: Mapping[str, Layout], *, sliding: bool = False
) -> dict[str, Layout]:
    """Return the layouts of what one step of common loops needs of each temporary.

    They are those of the whole temporaries with fewer places along the axes that are walked. Along the others they
    keep their halo; along these they have none, since no stage reads past the border of a part.

    Args:
        sliding: whether the innermost loop keeps what its next step needs again.

    Raises:
        ScheduleError: the stages cannot be computed under these loops.
    """
    parts, kept = needed(computation, loops), rings(computation, loops) if sliding else {}
    stages = computation.stages[:-1]
    return {
        stage.tensor: _window(layouts[stage.tensor], stage, part, kept.get(stage.tensor))
        for stage, part in zip(stages, parts, strict=False)
    }


def rings(computation: Computation, loops: Sequence[Loop]) -> dict[str, Ring]:
    """Return what each stage before the last one keeps from one step of the innermost common loop to the next.

    Stages without such places are left out.

    Raises:
        ScheduleError: the stages cannot be computed under these loops, or the innermost one leaves a rest.
    """
    inner = loops[-1]
    if not isinstance(inner.axis.extent, int) or inner.axis.extent % inner.step:
        raise ScheduleError(f"{inner.axis.name} slides in steps of {inner.step}, which leave a rest")
    turn = Var("turn", inner.axis.extent // inner.step)
    at = {loop.axis: Index() for loop in loops} | {inner.axis: turn * inner.step}
    parts = _parts(computation, Part(at, {loop.axis: loop.step for loop in loops}))
    slid: dict[str, Ring] = {}
    for stage, part in zip(computation.stages[:-1], parts, strict=False):
        for axis, first in part.at.items():
            new = first.coefficient(turn) or 0
            if 0 < new < part.left[axis]:
                slid[stage.tensor] = Ring(axis, part.left[axis] - new, new)
    return slid


def needed(computation: Computation, loops: Sequence[Loop]) -> list[Part]:
    """Return what each stage computes in the first step of common loops over axes of the last one.

    Raises:
        ScheduleError: places or terms of a stage follow one another, a stage before the last one stores something else
            than a temporary at its axes, or what is read of it in one step is not a box within it.
    """
    last = computation.stages[-1]
    for stage in computation.stages:
        is_ordered = stage.is_sequential or (stage.fold is not None and not is_tileable(stage.fold))
        if stage.lookups or stage.checks or is_ordered:
            raise ScheduleError(
                f"{stage.tensor} cannot be computed in parts: its places, or its terms, follow one another"
            )
    turns: dict[Var, Index] = {}
    for loop in loops:
        extent = loop.axis.extent
        if loop.axis not in last.axes or not isinstance(extent, int):
            raise ScheduleError(f"{computation.name} is fused under axes of {last.tensor} whose extents are constants")
        turns[loop.axis] = Var(f"turn of {loop.axis.name}", max(1, extent // loop.step)) * loop.step
    steps = {loop.axis: loop.step for loop in loops}
    first = _parts(computation, Part(dict.fromkeys(steps, Index()), steps))
    # What the first step reads says nothing of the others where a step ends inside a group: i // 3 in steps of two.
    for stage, part, other in zip(computation.stages, first, _parts(computation, Part(turns, steps)), strict=True):
        if part.left != other.left:
            raise ScheduleError(f"steps read different numbers of places of {stage.tensor}")
    return first


def fused(
    computation: Computation,
    loops: Sequence[Loop],
    layouts: Mapping[str, Layout],
    buffers: Mapping[str, Buffer],
    names: Names,
    target: TargetInfo | None,
    schedules: Mapping[int, Schedule],
    *,
    sliding: bool = False,
) -> tuple[Statement, ...]:
    """Return stages under common loops over axes of the last one; temporaries have the layouts of `windows`.

    Raises:
        ScheduleError: the stages cannot be computed under these loops.
    """
    chosen = [
        _with_terms(schedules.get(number) or choose(stage, layouts, target, part.left), stage)
        for number, (stage, part) in enumerate(zip(computation.stages, needed(computation, loops), strict=True))
    ]
    extents = {loop.axis: loop.axis.extent for loop in loops if isinstance(loop.axis.extent, int)}
    start = Part({axis: Index() for axis in extents}, extents)
    kept = rings(computation, loops) if sliding else {}
    return _Fusion(computation, layouts, buffers, names, target, chosen, kept).walk(loops, start)


@dataclass(frozen=True, slots=True)
class _Fusion:
    """Stages with their schedules, in their buffers."""

    computation: Computation
    layouts: Mapping[str, Layout]
    buffers: Mapping[str, Buffer]
    names: Names
    target: TargetInfo | None
    schedules: Sequence[Schedule]
    rings: Mapping[str, Ring]

    def walk(self, loops: Sequence[Loop], part: Part) -> tuple[Statement, ...]:
        """Return the common loops; what does not fill a step gets statements of its own."""
        if not loops:
            return self._step(_parts(self.computation, part))
        loop, *inner = loops
        if not inner and self.rings:
            return self._slid(loop, part)
        whole, rest = divmod(part.left[loop.axis], loop.step)
        statements: tuple[Statement, ...] = ()
        if whole:
            var = Var(self.names.new("step"), whole)
            statements = (For(var, Bind.SERIAL, self.walk(inner, _moved(part, loop, Index.of(var)))),)
        if rest:
            remainder = Part(
                {**part.at, loop.axis: part.at[loop.axis] + whole * loop.step}, {**part.left, loop.axis: rest}
            )
            statements += self.walk(inner, remainder)
        return statements

    def _slid(self, loop: Loop, part: Part) -> tuple[Statement, ...]:
        """Return the innermost loop, after the places that its first step reads in addition to the new ones."""
        count = part.left[loop.axis] // loop.step
        begin = _parts(self.computation, _moved(part, loop, Index()))
        statements: tuple[Statement, ...] = ()
        for number, stage in enumerate(self.computation.stages[:-1]):
            ring = self.rings.get(stage.tensor)
            if ring is not None:
                first = Part(begin[number].at, {**begin[number].left, ring.axis: ring.kept})
                statements += self._stage(number, first, self._origins(begin))
        middle = self._tests(part, loop, count // 2)
        inside = [turn for turn in range(count) if self._tests(part, loop, turn) == middle]
        low, high = (inside[0], inside[-1] + 1) if inside == list(range(inside[0], inside[-1] + 1)) else (0, count)
        for turn in range(low):
            statements += self._turn(part, loop, Index.of(turn))
        if high - low > 1:
            var = Var(self.names.new("step"), high - low)
            statements += (For(var, Bind.SERIAL, self._turn(part, loop, var + low)),)
        else:
            statements += self._turn(part, loop, Index.of(low))
        for turn in range(high, count):
            statements += self._turn(part, loop, Index.of(turn))
        return statements

    def _turn(self, part: Part, loop: Loop, turn: Index) -> tuple[Statement, ...]:
        """Return one step of the innermost loop: the new places of each stage."""
        return self._step(self._new(_parts(self.computation, _moved(part, loop, turn))))

    def _new(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts of stages without what their rings keep."""
        moved_parts = list(parts)
        for number, stage in enumerate(self.computation.stages[:-1]):
            ring = self.rings.get(stage.tensor)
            if ring is not None:
                at, left = parts[number].at, parts[number].left
                moved = {**at, ring.axis: at[ring.axis] + ring.kept}
                moved_parts[number] = Part(moved, {**left, ring.axis: ring.new})
        return moved_parts

    def _tests(self, part: Part, loop: Loop, turn: int) -> frozenset[tuple[int, int, Within]]:
        """Return the tests that stages need in one step of the innermost loop: steps at a border need others."""
        tests: set[tuple[int, int, Within]] = set()
        parts = self._new(_parts(self.computation, _moved(part, loop, Index.of(turn))))
        for number, (stage, own) in enumerate(zip(self.computation.stages, parts, strict=True)):
            values = {axis: first + Var(f"{axis.name}'", own.left[axis]) for axis, first in own.at.items()}
            walked_axes = own.at.keys()
            for which, element in enumerate(stage.elements):
                for guard in access(element, self.buffers, self.layouts, self._origins(parts)).guards:
                    if guard.test.index.variables() & walked_axes and guard.needed(values) is not None:
                        tests.add((number, which, guard.test))
        return frozenset(tests)

    def _step(self, parts: Sequence[Part]) -> tuple[Statement, ...]:
        origins = self._origins(parts)
        statements: tuple[Statement, ...] = ()
        for number, part in enumerate(parts):
            statements += self._stage(number, part, origins)
        return statements

    def _stage(self, number: int, part: Part, origins: Mapping[str, tuple[Index, ...]]) -> tuple[Statement, ...]:
        stage, schedule = self.computation.stages[number], self.schedules[number]
        stage_loops = placed(stage, schedule, self.buffers, self.layouts, self.target, origins)
        return walked(stage_loops, self.names, part.at, part.left)

    def _origins(self, parts: Sequence[Part]) -> dict[str, tuple[Index, ...]]:
        """Return the places that lie first in the buffers of temporaries; a ring has no such place."""
        return {
            stage.tensor: tuple(self._origin(stage.tensor, index, part) for index in stage.at)
            for stage, part in zip(self.computation.stages[:-1], parts, strict=False)
        }

    def _origin(self, tensor: str, index: Index, part: Part) -> Index:
        ring = self.rings.get(tensor)
        slid = () if ring is None else (ring.axis,)
        origins = (part.at[axis] for axis in index.variables() if axis in part.at and axis not in slid)
        return next(origins, Index())


def _moved(part: Part, loop: Loop, turn: Index) -> Part:
    """Return the part of the last stage in one step of a loop."""
    return Part({**part.at, loop.axis: part.at[loop.axis] + turn * loop.step}, {**part.left, loop.axis: loop.step})


def _parts(computation: Computation, last: Part) -> list[Part]:
    """Return what each stage computes so that the last one can compute its part."""
    stages, parts = computation.stages, [last]
    for number in range(len(stages) - 2, -1, -1):
        readers = list(zip(stages[number + 1 :], parts, strict=True))
        parts.insert(0, _needed(computation, stages[number], readers))
    return parts


def _with_terms(schedule: Schedule, stage: Stage) -> Schedule:
    """Return a schedule with loops over folded axes, also for one that leaves them to the order of the fold."""
    fold = stage.fold
    walked_axes = {loop.axis for loop in schedule.loops}
    missing = () if fold is None else (Loop(axis) for axis in fold.axes if axis not in walked_axes)
    return replace(schedule, loops=(*schedule.loops, *missing))


def _needed(computation: Computation, stage: Stage, readers: Sequence[tuple[Stage, Part]]) -> Part:
    """Return the part of a stage that later stages read in their parts."""
    axes = [index.variables() for index in stage.at]
    is_whole = all(index in (Index(), *map(Index.of, own)) for index, own in zip(stage.at, axes, strict=True))
    if all(tensor.name != stage.tensor for tensor in computation.temporaries) or not is_whole:
        raise ScheduleError(
            f"{stage.tensor} cannot be computed in parts: fuse temporaries that are stored at their axes"
        )
    shape = computation.tensor(stage.tensor).shape
    # None: all places of the axis.
    at: dict[Var, Index | None] = {}
    left: dict[Var, int] = {}
    for reader, part in readers:
        for element in reader.elements:
            if not isinstance(element, Read) or element.tensor != stage.tensor:
                continue
            for dim, index in enumerate(element.at):
                if not axes[dim]:
                    continue
                (axis,) = axes[dim]
                is_walked = bool(index.variables() & part.at.keys())
                if is_walked and element.fill is not None and not Within(index, shape[dim]).is_certain:
                    raise ScheduleError(f"{stage.tensor} is read past its border: what lies there is in no part of it")
                first, count = _reach(index, part, stage.tensor) if is_walked else (None, 0)
                if at.setdefault(axis, first) != first:
                    raise ScheduleError(f"stages read {stage.tensor} at different places of {axis.name} in one step")
                left[axis] = max(left.get(axis, 0), count)
    walked_axes = {axis: first for axis, first in at.items() if first is not None}
    return Part(walked_axes, {axis: left[axis] for axis in walked_axes})


def _reach(index: Index, part: Part, tensor: str) -> tuple[Index, int]:
    """Return the first value of an index in a part, and how many it has from there on."""
    others = {axis: Index() for axis in index.variables() if axis not in part.at}
    first = index.substituted({**part.at, **others})
    wide = {axis: Var(f"{axis.name}'", count) for axis, count in part.left.items() if count > 1}
    moved = {axis: at + wide[axis] if axis in wide else at for axis, at in part.at.items()}
    span = (index.substituted(moved) - first).interval
    if span.low != 0 or span.high is None:
        raise ScheduleError(f"{tensor} is read at {index}, which does not begin at its first place in a step")
    return first, span.high + 1


def _window(layout: Layout, stage: Stage, part: Part, ring: Ring | None) -> Layout:
    """Return the layout of a part of a tensor, with fewer places along the axes that are walked.

    Along that of a ring every place keeps its index, of which the remainder counts.
    """
    counts = {
        dim: part.left[axis] for dim, index in enumerate(stage.at) for axis in index.variables() if axis in part.left
    }
    walked_twice = [dim for dim in counts if sum(digit.dim == dim for digit in layout.digits) > 1]
    if walked_twice:
        raise ScheduleError(
            f"dimension {walked_twice[0]} of {stage.tensor} has several digits: no part of it lies evenly"
        )
    slid = {dim for dim, index in enumerate(stage.at) if ring is not None and ring.axis in index.variables()}
    shape = tuple(
        Index.of(counts[dim]) if dim in counts and dim not in slid else extent
        for dim, extent in enumerate(layout.shape)
    )
    digits = tuple(
        replace(digit, extent=Index.of(counts[digit.dim])) if digit.dim in counts else digit for digit in layout.digits
    )
    halo = tuple((0, 0) if dim in counts else around for dim, around in enumerate(layout.halo))
    return Layout(shape, digits, halo, layout.fill) if any(map(any, halo)) else Layout(shape, digits)
