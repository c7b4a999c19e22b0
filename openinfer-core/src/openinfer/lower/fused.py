"""Several stages under common loops: each step computes what the later stages read in it, in private buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Read
from openinfer.layout import Layout
from openinfer.loops import Alloc, Bind, Buffer, For, Memory
from openinfer.lower.placed import placed
from openinfer.lower.walks import walked
from openinfer.schedule import Loop, ScheduleError, choose
from openinfer.schedule.folds import is_tileable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Stage
    from openinfer.loops import Statement
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


def fused(
    computation: Computation,
    loops: tuple[Loop, ...],
    layouts: Mapping[str, Layout],
    buffers: Mapping[str, Buffer],
    names: Names,
    target: TargetInfo | None,
    schedules: Mapping[int, Schedule],
) -> tuple[tuple[Statement, ...], frozenset[str]]:
    """Return stages under common loops over axes of the last one, and the names of what became private.

    Raises:
        ScheduleError: a stage before the last one stores something else than a temporary at its axes, or what is read
            of it in one step is not a box within it.
    """
    fusion = _Fusion(computation, layouts, buffers, names, target, schedules)
    last = computation.stages[-1]
    extents = {loop.axis: loop.axis.extent for loop in loops if isinstance(loop.axis.extent, int)}
    if any(loop.axis not in last.axes or loop.axis not in extents for loop in loops):
        raise ScheduleError(f"{computation.name} is fused under axes of {last.tensor} whose extents are constants")
    first = Part({loop.axis: Index() for loop in loops}, {loop.axis: loop.step for loop in loops})
    fusion.allot(fusion.parts(first))
    start = Part({axis: Index() for axis in extents}, extents)
    return (*fusion.allocated(), *fusion.walk(loops, start)), frozenset(fusion.private)


class _Fusion:
    def __init__(
        self,
        computation: Computation,
        layouts: Mapping[str, Layout],
        buffers: Mapping[str, Buffer],
        names: Names,
        target: TargetInfo | None,
        schedules: Mapping[int, Schedule],
    ) -> None:
        self._computation = computation
        self._layouts = dict(layouts)
        self._buffers = dict(buffers)
        self._names = names
        self._target = target
        self._given = schedules
        self._schedules: list[Schedule] = []
        self.private = [tensor.name for tensor in computation.temporaries]

    def parts(self, last: Part) -> list[Part]:
        """Return what each stage computes so that the last one can compute its part."""
        stages = self._computation.stages
        parts = [last]
        for number in range(len(stages) - 2, -1, -1):
            readers = list(zip(stages[number + 1 :], parts, strict=True))
            parts.insert(0, _needed(stages[number], readers, self.private))
        return parts

    def allot(self, parts: Sequence[Part]) -> None:
        """Make buffers that hold what a whole step computes, and choose the schedules for it."""
        for stage, part in zip(self._computation.stages[:-1], parts, strict=False):
            layout = _window(self._layouts[stage.tensor], stage, part)
            buffer = self._buffers[stage.tensor]
            self._layouts[stage.tensor] = layout
            self._buffers[stage.tensor] = replace(buffer, size=layout.size, memory=Memory.PRIVATE)
        for number, (stage, part) in enumerate(zip(self._computation.stages, parts, strict=True)):
            chosen = self._given.get(number) or choose(stage, self._layouts, self._target, part.left)
            self._schedules.append(_with_terms(chosen, stage))

    def allocated(self) -> Iterator[Statement]:
        for name in self.private:
            yield Alloc(self._buffers[name])

    def walk(self, loops: Sequence[Loop], part: Part) -> tuple[Statement, ...]:
        """Return the common loops; what does not fill a step gets statements of its own."""
        if not loops:
            return self._step(part)
        loop, *inner = loops
        whole, rest = divmod(part.left[loop.axis], loop.step)
        statements: tuple[Statement, ...] = ()
        if whole:
            var = Var(self._names.new("step"), whole)
            place = Part(
                {**part.at, loop.axis: part.at[loop.axis] + var * loop.step}, {**part.left, loop.axis: loop.step}
            )
            statements = (For(var, Bind.SERIAL, self.walk(inner, place)),)
        if rest:
            place = Part({**part.at, loop.axis: part.at[loop.axis] + whole * loop.step}, {**part.left, loop.axis: rest})
            statements += self.walk(inner, place)
        return statements

    def _step(self, last: Part) -> tuple[Statement, ...]:
        stages, parts = self._computation.stages, self.parts(last)
        origins = {
            stage.tensor: tuple(
                next((part.at[axis] for axis in index.variables() if axis in part.at), Index()) for index in stage.at
            )
            for stage, part in zip(stages[:-1], parts, strict=False)
        }
        statements: tuple[Statement, ...] = ()
        for stage, part, schedule in zip(stages, parts, self._schedules, strict=True):
            found = placed(stage, schedule, self._buffers, self._layouts, self._target, origins)
            statements += walked(found, self._names, part.at, part.left)
        return statements


def _with_terms(schedule: Schedule, stage: Stage) -> Schedule:
    """Return a schedule with loops over folded axes, which one that leaves them to the order of the fold lacks."""
    fold = stage.fold
    if stage.lookups or stage.checks or stage.is_sequential or (fold is not None and not is_tileable(fold)):
        raise ScheduleError(f"{stage.tensor} cannot be computed in parts: its places, or its terms, follow one another")
    walked_axes = {loop.axis for loop in schedule.loops}
    missing = () if fold is None else (Loop(axis) for axis in fold.axes if axis not in walked_axes)
    return replace(schedule, loops=(*schedule.loops, *missing))


def _needed(stage: Stage, readers: Sequence[tuple[Stage, Part]], private: Sequence[str]) -> Part:
    """Return the part of a stage that later stages read in their parts."""
    axes = [index.variables() for index in stage.at]
    is_whole = all(index in (Index(), *map(Index.of, found)) for index, found in zip(stage.at, axes, strict=True))
    if stage.tensor not in private or not is_whole:
        raise ScheduleError(
            f"{stage.tensor} cannot be computed in parts: fuse temporaries that are stored at their axes"
        )
    at: dict[Var, Index] = {}
    left: dict[Var, int] = {}
    for reader, part in readers:
        for element in reader.elements:
            if not isinstance(element, Read) or element.tensor != stage.tensor:
                continue
            if element.fill is not None:
                raise ScheduleError(f"{stage.tensor} is read past its border: what lies there is in no part of it")
            for dim, index in enumerate(element.at):
                if not index.variables() & part.at.keys() or not axes[dim]:
                    continue
                (axis,) = axes[dim]
                first, count = _reach(index, part, stage.tensor)
                if at.setdefault(axis, first) != first:
                    raise ScheduleError(f"stages read {stage.tensor} at different places of {axis.name} in one step")
                left[axis] = max(left.get(axis, 0), count)
    return Part(at, left)


def _reach(index: Index, part: Part, tensor: str) -> tuple[Index, int]:
    """Return the first value of an index in a part, and how many it has from there on."""
    others = {axis: Index() for axis in index.variables() if axis not in part.at}
    first = index.substituted({**part.at, **others})
    moved = {axis: part.at[axis] + Var(f"{axis.name}'", part.left[axis]) for axis in part.at}
    span = (index.substituted(moved) - first).interval
    if span.low != 0 or span.high is None:
        raise ScheduleError(f"{tensor} is read at {index}, which does not begin at its first place in a step")
    return first, span.high + 1


def _window(layout: Layout, stage: Stage, part: Part) -> Layout:
    """Return the layout of a part of a tensor: that of the whole, with fewer places along the axes that are walked.

    It has no halo: no stage reads past the border of a part.
    """
    counts = {
        dim: part.left[axis] for dim, index in enumerate(stage.at) for axis in index.variables() if axis in part.left
    }
    walked_twice = [dim for dim in counts if sum(digit.dim == dim for digit in layout.digits) > 1]
    if walked_twice:
        raise ScheduleError(
            f"dimension {walked_twice[0]} of {stage.tensor} has several digits: no part of it lies evenly"
        )
    shape = tuple(Index.of(counts[dim]) if dim in counts else extent for dim, extent in enumerate(layout.shape))
    digits = tuple(
        replace(digit, extent=Index.of(counts[digit.dim])) if digit.dim in counts else digit for digit in layout.digits
    )
    return Layout(shape, digits)
