"""Blocks of a program as C: segments of commands that are recorded once, and control flow between them.

A segment takes all steps up to one that needs a number from the device: the test of a branch, a bound of a loop or an
index that a kernel computes. Loops with known bounds are unrolled when they are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.plan.accesses import members, walk, writes
from openinfer.plan.failing import changes_state, refuses_elements
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    EqualStep,
    LoopProgramStep,
    LoopStep,
    PlaceStep,
    ReturnStep,
    SetStep,
)
from openinfer.plan.values import NoMemory
from openinfer.synth.c_host.integers import declare_integers
from openinfer.synth.c_host.lines import Lines
from openinfer.synth.c_text import comment
from openinfer_backend_vulkan.glsl.counts import count_var, counted_value
from openinfer_backend_vulkan.target.commands import Commands
from openinfer_backend_vulkan.target.counted_sizes import needs_count, set_sizes, settled
from openinfer_backend_vulkan.target.hazards import meets_any
from openinfer_backend_vulkan.target.integers import values_read
from openinfer_backend_vulkan.target.kernel_writer import KernelWriter, lines_of, step_line
from openinfer_backend_vulkan.target.places import whole
from openinfer_backend_vulkan.target.ports import write_download, write_upload
from openinfer_backend_vulkan.target.step_writer import write_step

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.plan.steps import Step
    from openinfer_backend_vulkan.target.kernel_writer import Program
    from openinfer_backend_vulkan.target.places import Place

MOST_COMMANDS = 4096
"""Maximum number of commands of a loop that is unrolled when it is recorded; a longer one is submitted once for each
iteration."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as the body of a function.

    Attributes:
        numbers: where its numbers begin in the buffer of the host, from the first ones on.
        sets, bound: dispatches, and buffers that they are given together.
        line: of the only statement whose kernels have tests that can fail; 0: there are none or several.
    """

    lines: tuple[str, ...]
    numbers: int
    sets: int
    bound: int
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block as the body of a function."""

    name: str
    comment: str
    lines: tuple[str, ...]


class BlockWriter:
    """Writes blocks in order.

    Attributes:
        segments: those of all blocks so far.
        numbers_nbytes: bytes of their numbers.
        index_functions: functions that their integer expressions call.
        may_fail: whether a kernel in them has a test that can fail.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self.segments: list[Segment] = []
        self.numbers_nbytes = 0
        self.index_functions: set[str] = set()
        self.may_fail = False
        self._open: Commands | None = None
        self._host = Lines(1)

    def block(
        self, name: str, what: str, steps: Sequence[Step], *, uploads: bool = False, downloads: bool = False
    ) -> Block:
        """Return a block.

        Args:
            uploads: whether it copies the inputs first, and with ``downloads`` the results last.

        Raises:
            SynthesisError: a step has no form in GLSL or C.
        """
        self._host = Lines(1)
        ends = bool(steps) and isinstance(steps[-1], ReturnStep)
        inner = steps[:-1] if ends else steps
        if uploads:
            write_upload(self._program, self._segment())
        self._steps(inner)
        if downloads:
            write_download(self._program, self._segment())
        self._close()
        self.index_functions |= self._host.index_functions
        return Block(name, comment(what), tuple(self._host.lines))

    # Segments.

    def _segment(self) -> Commands:
        if self._open is None:
            self._open = Commands(self._program.names)
        return self._open

    def _close(self) -> None:
        """End the segment that is open: what comes next may read what it computes."""
        code, self._open = self._open, None
        if code is None:
            return
        code.end()
        self._host.line(f"status = model_run(model, inputs, {len(self.segments)});")
        self._host.line("if (status != MODEL_OK) { return status; }")
        self._host.line(*settled(code.counted, self._program.plan, self._program.names))
        line = min(code.tested_lines) if len(code.tested_lines) == 1 else 0
        self.segments.append(Segment(tuple(code.lines), self.numbers_nbytes, code.sets, code.bound, line))
        self.numbers_nbytes += whole(code.numbers_nbytes)
        self.index_functions |= code.index_functions
        self.may_fail = self.may_fail or bool(code.tested_lines)

    # Steps.

    def _steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, BarrierStep):
                continue
            if not self._fits(step):
                self._close()
                self._control(step)
                continue
            if self._open is not None and self._is_counted(step, self._open):
                continue
            if self._open is not None and self._has_to_wait(step, self._open):
                self._close()
            write_step(self._program, self._segment(), step)

    def _is_counted(self, step: Step, code: Commands) -> bool:
        """Append a step that sets registers to sizes that kernels of the segment count; return whether it is one."""
        plan = self._program.plan
        if isinstance(step, PlaceStep):
            value = counted_value(plan, step)
            is_written = value is not None and meets_any(self._program.places.value(value), code.written)
            if value is None or not is_written or step.register in code.counted:
                return False
            code.line(*map(comment, lines_of(step)))
            KernelWriter(self._program, code, step).count(step, self._program.places.value(value))
            most = plan.registers[step.register].most
            code.counted[step.register] = Index.of(count_var(step.register, most))
            return True
        sizes = set_sizes(plan, step, code.counted) if isinstance(step, SetStep) else None
        code.counted |= sizes or {}
        return bool(sizes)

    def _fits(self, step: Step) -> bool:
        """Whether a step can be part of a segment."""
        if isinstance(step, CallStep | ReturnStep):
            return False
        if not isinstance(step, LoopStep):
            return True
        inner = list(walk(step.body))
        if any(isinstance(inner_step, CallStep | ReturnStep | BarrierStep) for inner_step in inner):
            return False
        plan = self._program.plan
        if any(changes_state(inner_step, plan) for inner_step in inner) and any(map(_may_fail, inner)):
            return False
        turns = _turns(step)
        if turns is None or turns > MOST_COMMANDS:
            return False
        return not self._has_to_follow(step, [written for inner_step in inner for written in self._written(inner_step)])

    def _written(self, step: Step) -> list[Place]:
        values, places = self._program.plan.values, self._program.places
        numbers = [number for number in members(writes(step)) if not isinstance(values[number].memory, NoMemory)]
        return [places.value(number) for number in numbers]

    def _has_to_wait(self, step: Step, code: Commands) -> bool:
        """Whether a step comes after the commands of a segment.

        Whatever is kept changes only where no kernel before has refused an element.
        """
        steps = [step, *walk(step.body)] if isinstance(step, LoopStep) else [step]
        if code.tested_lines and any(changes_state(inner, self._program.plan) for inner in steps):
            return True
        return needs_count(self._program.plan, step, code.counted) or self._has_to_follow(step, code.written)

    def _has_to_follow(self, step: Step, written: Sequence[Place]) -> bool:
        """Whether a step comes after commands that write some places: numbers and tests of a segment come before them.

        A test that ends a step of the program leaves what was written to states before it.
        """
        if self._reads_any(step, written):
            return True
        places, states = self._program.places, self._program.plan.states
        refuses = any(map(_refuses, [step, *walk(step.body)] if isinstance(step, LoopStep) else [step]))
        return refuses and any(meets_any(places.value(state.value), written) for state in states)

    def _reads_any(self, step: Step, written: Sequence[Place]) -> bool:
        """Whether the integer expressions of a step, or of its body, read a place that commands write."""
        steps = [step, *walk(step.body)] if isinstance(step, LoopStep) else [step]
        values = {number for inner in steps for number in values_read(inner)}
        return any(meets_any(self._program.places.value(number), written) for number in values)

    def _control(self, step: Step) -> None:
        self._host.line(*(comment(line) for line in lines_of(step)))
        with self._host.faults_at(step_line(step)):
            self._controlled(step)

    def _controlled(self, step: Step) -> None:
        host, names = self._host, self._program.names
        match step:
            case ReturnStep():
                host.line("return MODEL_OK;")
            case CallStep():
                self._call(step)
            case LoopStep():
                name = f"model->{names.loops[step.loop]}"
                with host.braces():
                    declare_integers(host, names, {"start": step.start, "end": step.end})
                    with host.braces(f"for ({name} = start; {name} < end; ++{name})"):
                        self._steps(step.body)
                        self._close()
            case _:
                raise AssertionError(step)

    def _call(self, step: CallStep) -> None:
        host, names = self._host, self._program.names
        call = f"status = {names.blocks[step.procedure]}(model, inputs);"
        if step.condition is None:
            host.line(call)
        else:
            with host.braces(f"if ({names.truth(step.condition)})"):
                host.line(call)
        if step.otherwise is not None:
            with host.braces("else"):
                host.line(f"status = {names.blocks[step.otherwise]}(model, inputs);")
        host.line("if (status != MODEL_OK) { return status; }")


def _turns(step: LoopStep) -> int | None:
    """Return how often the steps of a loop run, those of loops in it included; None where that is not known."""
    start, end = step.start.constant, step.end.constant
    if start is None or end is None:
        return None
    inner = 1
    for child in step.body:
        turns = _turns(child) if isinstance(child, LoopStep) else 1
        if turns is None:
            return None
        inner += turns
    return max(end - start, 0) * inner


def _refuses(step: Step) -> bool:
    """Whether a step tests sizes."""
    if isinstance(step, PlaceStep):
        return step.range.least is not None or step.range.most is not None
    return isinstance(step, EqualStep)


def _may_fail(step: Step) -> bool:
    return isinstance(step, LoopProgramStep) or refuses_elements(step)
