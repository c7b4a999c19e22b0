"""Schedules in a file: those of a plan as text, and given ones in place of the choice of the cost model.

    openinfer-schedules 1

    classify:45,46 conv2d+relu
        y0[i0=1 i1=24 i2=8 i3=8 i4=1 i5=3 i6=3] 9c1f02ab: i0:24 i1 i2:2 i3 i4 i6 i5=unroll i0:4=unroll i0=lanes

A step is named by its block, the lines that it comes from (``node7`` without text), its operators, and ``#2`` where it
is the second of such a name. Its stages follow: the tensor that one computes, its axes, a digest of the rest
of its meaning, and its schedule (`openinfer.schedule.text`). Of several stages ``under: i0:4 i2`` says inside of which
loops over axes of the last one all are computed; without loops one runs after the other. ``sliding`` after them means
that a step of the innermost computes only what the step before has not.

A ``#`` at the start of a line begins a comment.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from openinfer.compute.text import stage_lines
from openinfer.diagnostics import did_you_mean
from openinfer.loops import Bind
from openinfer.lower.fused import needed, rings
from openinfer.plan.accesses import walk
from openinfer.plan.findings import about
from openinfer.plan.steps import ComputeStep
from openinfer.regular_files import read_regular
from openinfer.schedule import Schedule, ScheduleError, verify
from openinfer.schedule.text import parse_schedule, schedule_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Stage
    from openinfer.errors import SynthesisError
    from openinfer.plan.steps import Arrangement, Procedure
    from openinfer.schedule import Loop

VERSION = 1

_CODE = "schedules"
_UNDER, _SLIDING = "under:", "sliding"
_HEAD = re.compile(r"openinfer-schedules (\d+)")
_STEP = re.compile(r"\S+ \S+(?: #\d+)?")
_STAGE = re.compile(r"(?P<tensor>\w+)\[(?P<axes>[^\]]*)\] (?P<digest>[0-9a-f]{8}):(?P<schedule>.*)")
_EXTENTS = re.compile(r"( in (?:grid|unordered|sequential|running_unordered|running_sequential))\(.*\):$")


@dataclass(frozen=True, slots=True)
class StageKey:
    """The identity of a stage.

    Attributes:
        tensor: the name of its result.
        axes: its axes with their extents, folded ones after the others.
        digest: of its expressions and element types.
    """

    tensor: str
    axes: tuple[str, ...]
    digest: str

    def __str__(self) -> str:
        return f"{self.tensor}[{' '.join(self.axes)}] {self.digest}"


@dataclass(frozen=True, slots=True)
class GivenSchedule:
    """A schedule of a file, with its line in the file."""

    step: str
    stage: StageKey
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class GivenLoops:
    """The loops around the stages of a step, as a file has them, with their line."""

    step: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class ScheduleFile:
    """The schedules of a file, by step; a file without any leaves every choice to the cost model."""

    entries: tuple[GivenSchedule, ...]
    name: str = "schedules"
    loops: tuple[GivenLoops, ...] = ()


def schedules_text(procedures: Sequence[Procedure]) -> str:
    """Return the schedules of a plan as text that `parse_schedules` reads back.

    Raises:
        SynthesisError: the plan has none, since its target arranges loops itself.
    """
    lines = [f"openinfer-schedules {VERSION}"]
    for name, step in _named(procedures):
        lines += ["", name]
        if not step.arrangement.schedules:
            raise _without_schedules()
        if len(step.computation.stages) > 1:
            lines.append(f"    {_UNDER} {common_loops_text(step.arrangement)}".rstrip())
        keys = stage_keys(step.computation)
        for key, schedule in zip(keys, step.arrangement.schedules, strict=True):
            lines.append(f"    {key}: {schedule_text(schedule)}".rstrip())
    return "\n".join(lines) + "\n"


def _without_schedules() -> SynthesisError:
    from openinfer.errors import SynthesisError

    message = "the synth target of the plan arranges loops itself: there are no schedules to write"
    return SynthesisError(message, code=_CODE)


def parse_schedules(text: str, name: str = "schedules") -> ScheduleFile:
    """Return the schedules that a text has.

    Args:
        name: how errors call the file.

    Raises:
        SynthesisError: a line has another form, or the version is unknown.
    """
    entries: list[GivenSchedule] = []
    loops: list[GivenLoops] = []
    step, begun = "", 0
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and not line.startswith("#")]
    head = _HEAD.fullmatch(lines[0][1].strip()) if lines else None
    if head is None or int(head[1]) != VERSION:
        first = lines[0][1].strip() if lines else "nothing"
        raise about(_CODE, f"{name}: expected `openinfer-schedules {VERSION}` in the first line, found {first!r}")
    for number, line in lines[1:]:
        content = line.strip()
        if not line[0].isspace():
            if not _STEP.fullmatch(content):
                raise about(_CODE, f"{name}:{number}: expected a step such as `entry:4 matmul`, found {content!r}")
            _refuse_empty(name, step, begun, entries)
            step, begun = content, number
            continue
        if step and content.startswith(_UNDER):
            if loops and loops[-1].line > begun:
                raise about(_CODE, f"{name}:{number}: step `{step}` has common loops already in line {loops[-1].line}")
            loops.append(GivenLoops(step, content.removeprefix(_UNDER).strip(), number))
            continue
        stage = _STAGE.fullmatch(content)
        if stage is None or not step:
            expected = "a stage such as `y[i0=4] 0123abcd: i0` after a step"
            raise about(_CODE, f"{name}:{number}: expected {expected}, found {content!r}")
        key = StageKey(stage["tensor"], tuple(stage["axes"].split()), stage["digest"])
        entries.append(GivenSchedule(step, key, stage["schedule"].strip(), number))
    _refuse_empty(name, step, begun, entries)
    return ScheduleFile(tuple(entries), name, tuple(loops))


def common_loops_text(arrangement: Arrangement) -> str:
    """Return the loops inside of which all stages of a step are computed, as a file has them; "" for none."""
    return schedule_text(Schedule(arrangement.fusion)) + (f" {_SLIDING}" if arrangement.sliding else "")


def _refuse_empty(name: str, step: str, begun: int, entries: Sequence[GivenSchedule]) -> None:
    """Refuse a step without stages: nothing else would notice that the program does not have it."""
    if step and (not entries or entries[-1].line < begun):
        raise about(_CODE, f"{name}:{begun}: step `{step}` has no stages: list them after it, or remove the line")


def read_schedules(path: str | os.PathLike[str]) -> ScheduleFile:
    """Return the schedules of a file.

    Raises:
        SynthesisError: as `parse_schedules`, or it is not text.
        OSError: it cannot be read.
    """
    try:
        text = read_regular(path).decode("utf-8")
    except UnicodeDecodeError:
        raise about(_CODE, f"{os.fspath(path)}: expected UTF-8 text") from None
    return parse_schedules(text, os.fspath(path))


class GivenSchedules:
    """The schedules that a file gives the steps of a program.

    Raises:
        SynthesisError: the file names a step that the program does not have.
    """

    def __init__(self, file: ScheduleFile, procedures: Sequence[Procedure], target: TargetInfo) -> None:
        self._file = file
        self._target = target
        self._entries: dict[int, list[GivenSchedule]] = {}
        self._loops: dict[int, GivenLoops] = {}
        steps = dict(_named(procedures)) if file.entries else {}
        for entry in file.entries:
            self._entries.setdefault(id(self._step(entry, steps)), []).append(entry)
        for loops in file.loops:
            self._loops[id(self._step(loops, steps))] = loops

    def _step(self, entry: GivenSchedule | GivenLoops, steps: Mapping[str, ComputeStep]) -> ComputeStep:
        step = steps.get(entry.step)
        if step is None:
            alike = did_you_mean(entry.step, steps)
            raise self._error(entry, f"the program has no step `{entry.step}`", alike)
        return step

    def under(self, step: ComputeStep) -> Arrangement:
        """Return the loops around the stages of a step (of the given program; identity counts): given or chosen ones.

        Raises:
            SynthesisError: the stages cannot be computed under the loops that the file gives.
        """
        entry = self._loops.get(id(step))
        if entry is None:
            return step.arrangement
        words = entry.text.split()
        sliding = words[-1:] == [_SLIDING]
        axes, text = step.computation.stages[-1].axes, " ".join(words[: len(words) - sliding])
        try:
            schedule = parse_schedule(text, axes)
            fusion = _common(schedule)
            if fusion:
                needed(step.computation, fusion)
            if sliding:
                rings(step.computation, fusion)
        except ScheduleError as error:
            raise self._error(entry, f"the loops around the stages of step `{entry.step}`: {error}") from None
        return replace(step.arrangement, fusion=fusion, sliding=sliding)

    def of(self, step: ComputeStep, computation: Computation) -> dict[int, Schedule]:
        """Return the schedules of a step (of the given program; identity counts), by number of the stage.

        Args:
            computation: what the step carries out, with the axes that schedules walk.

        Raises:
            SynthesisError: the step does not have a stage that the file names, a stage has changed since, or its
                schedule does not suit it. The message says where and what differs.
        """
        entries = self._entries.get(id(step), [])
        keys = stage_keys(computation) if entries else []
        schedules: dict[int, Schedule] = {}
        for entry in entries:
            places = [n for n, key in enumerate(keys) if key.tensor == entry.stage.tensor and n not in schedules]
            if not places:
                tensors = [key.tensor for key in keys]
                message = f"step `{entry.step}` has no stage {entry.stage.tensor}; it has {', '.join(tensors)}"
                if entry.stage.tensor in tensors:
                    message = f"stage {entry.stage.tensor} of step `{entry.step}` has a schedule already"
                raise self._error(entry, message)
            number = next((n for n in places if keys[n] == entry.stage), places[0])
            schedules[number] = self._schedule(entry, computation.stages[number], keys[number])
        return schedules

    def _schedule(self, entry: GivenSchedule, stage: Stage, key: StageKey) -> Schedule:
        where = f"stage {key.tensor} of step `{entry.step}`"
        if key != entry.stage:
            raise self._error(entry, f"{where} has changed: {_difference(entry.stage, key)}")
        axes = stage.all_axes
        try:
            schedule = parse_schedule(entry.text, axes)
            verify(schedule, stage, self._target)
        except ScheduleError as error:
            raise self._error(entry, f"{where}: {error}") from None
        return schedule

    def _error(self, entry: GivenSchedule | GivenLoops, message: str, hint: str | None = None) -> SynthesisError:
        hint = hint or "remove the lines, or write a new file with `openinfer plan --schedules-out`"
        return about(_CODE, f"{self._file.name}:{entry.line}: {message}", hint)


def _common(schedule: Schedule) -> tuple[Loop, ...]:
    """Return the loops of a schedule that are to enclose stages."""
    is_plain = all(loop.bind is Bind.SERIAL for loop in schedule.loops)
    if not is_plain or schedule.stream is not None or schedule.skip is not None:
        raise ScheduleError("expected serial loops such as `i0:4 i2`, and `sliding` after them or not")
    if len({loop.axis for loop in schedule.loops}) < len(schedule.loops):
        raise ScheduleError("an axis is walked twice")
    return schedule.loops


def stage_keys(computation: Computation) -> list[StageKey]:
    """Return what the stages of a computation are known by."""
    types = {t.name: t.dtype.name for t in (*computation.inputs, *computation.outputs, *computation.temporaries)}
    return [_stage_key(stage, types) for stage in computation.stages]


def _stage_key(stage: Stage, types: dict[str, str]) -> StageKey:
    # Extents are left out, so that a difference of them can be named.
    meaning = [_EXTENTS.sub(r"\1", line) for line in stage_lines(stage)]
    read = sorted(f"{name}:{types[name]}" for name in types if any(f"{name}[" in line for line in meaning))
    digest = sha256("\n".join([*read, *meaning]).encode()).hexdigest()[:8]
    axes = tuple(f"{axis.name}={axis.extent if isinstance(axis.extent, int) else '?'}" for axis in stage.all_axes)
    return StageKey(stage.tensor, axes, digest)


def _difference(of_file: StageKey, of_stage: StageKey) -> str:
    if of_file.axes != of_stage.axes:
        return f"the file has the axes {' '.join(of_file.axes)}, the stage {' '.join(of_stage.axes)}"
    return f"its expressions or element types differ (the file has {of_file.digest}, the stage {of_stage.digest})"


def _named(procedures: Sequence[Procedure]) -> Iterator[tuple[str, ComputeStep]]:
    """Yield the computations of a program with their names, blocks from the first."""
    counts: dict[str, int] = {}
    for procedure in reversed(procedures):
        for step in walk(procedure.steps):
            if isinstance(step, ComputeStep):
                name = f"{procedure.name}:{_place(step)} {step.op}"
                counts[name] = counts.get(name, 0) + 1
                yield name if counts[name] == 1 else f"{name} #{counts[name]}", step


def _place(step: ComputeStep) -> str:
    places = [f"node{s.node}" if s.line is None else str(s.line) for s in step.origin.statements]
    return ",".join(dict.fromkeys(places)) or "start"
