"""What a synth target must be able to do. Plugins implement `SynthTarget`; the synthesizer drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle

    Array: TypeAlias = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes of a memory of the device, of the structure (``"struct"``) or of ``"weights"``.

    Attributes:
        planned_nbytes: by the plan.
        linked_nbytes: by the map file of the linker, which leaves out weights that the compiler put into code.
    """

    name: str
    planned_nbytes: int
    linked_nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRun:
    """What was measured on an emulated board.

    Attributes:
        board, compiler: what ran and what compiled the program, for people.
        instructions: of a step, the mean over all steps.
        stack_nbytes: the deepest stack of initialisation and steps.
        memories: what the linker placed.
        code_nbytes: of the functions of the model.
        steps: instructions by the number of a step of the plan (`openinfer.estimate.StepEstimate.number`), if steps
            were counted apart; 0 is what belongs to none.
    """

    board: str
    compiler: str
    instructions: float
    stack_nbytes: int
    memories: tuple[MemoryUse, ...]
    code_nbytes: int
    steps: Mapping[int, float] = field(default_factory=dict[int, float])


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a synthesised program yields.

    Attributes:
        micros: microseconds of a step by the wall clock, the mean over all steps. A step that was repeated counts with
            its shortest run, one that was not with its only run, and with what only a first run has to do. NaN on an
            emulated board, whose time is that of the emulator.
        board: what was measured on an emulated board; None where the program ran on this machine.
        instead: why it did not run on the board that the device names; "" where it did, or where there is none.
    """

    outputs: Mapping[str, Array]
    micros: float
    board: BoardRun | None = None
    instead: str = ""

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.dtype} {list(array.shape)}" for name, array in self.outputs.items())
        return f"<RunResult: {self.micros:.1f} µs a step; {shapes}>"


class SynthTarget(Protocol):
    """A target that plans are written out for."""

    @property
    def epilogues(self) -> bool:
        """Whether its kernels carry out elementwise operators on their results (`openinfer.plan.steps`)."""
        ...

    @property
    def overlaps(self) -> bool:
        """Whether its kernels do what `openinfer.codegen.loop_program` says in its order.

        A result then may begin to overwrite an operand whose end is still read.
        """
        ...

    @property
    def banks(self) -> bool:
        """Whether it writes arrays for each memory of a device (`ExecutionPlan.banks`); others get one arena."""
        ...

    @property
    def arrangements(self) -> bool:
        """Whether it follows layouts and schedules that are chosen for a processor with vector registers.

        Others get computations without an arrangement (`openinfer.plan.steps.Arrangement`).
        """
        ...

    @property
    def options(self) -> frozenset[str]:
        """Names of the choices in `ExecutionPlan.options` that it follows; others are refused."""
        ...

    def emit(self, plan: ExecutionPlan) -> Bundle:
        """Return the source files; equal plans give equal bytes.

        Raises:
            SynthesisError: the plan holds something that the target cannot write out; the message names it.
        """
        ...

    def build_and_run(
        self,
        plan: ExecutionPlan,
        bundle: Bundle,
        inputs: Mapping[str, Array],
        *,
        steps: int | None = None,
        repeat: int = 1,
        timeout: float = 60.0,
        initial: Mapping[str, Array] | None = None,
    ) -> RunResult:
        """Compile the bundle in a private temporary directory, run it, and return what it yields.

        Args:
            inputs: arrays by input name, of the plan's types; one step each, or with ``steps`` that many stacked on a
                new first axis (then also in the outputs).
            repeat: how many runs of each step are timed. If there are several, one that does not count precedes them,
                and each begins with the state that the step began with.
            timeout: seconds that compiling and running may take, each.
            initial: values of plain persistent variables before the first step, by name and of the plan's types.

        Raises:
            MissingDependencyError: there is no compiler.
            SynthesisError: compiling or running failed or took too long; the message has what the tools said.
        """
        ...


@runtime_checkable
class Profiler(Protocol):
    """A `SynthTarget` that can count the instructions of every step of a plan on an emulated board."""

    def profile(self, plan: ExecutionPlan, inputs: Mapping[str, Array], *, timeout: float = 60.0) -> RunResult:
        """Run one step of the program on the board of its device; `RunResult.board` has the counts.

        Args:
            inputs: arrays by input name, of the plan's types.
            timeout: seconds that compiling and running may take, each.

        Raises:
            MissingDependencyError: the compiler or the emulator of the board is not installed.
            SynthesisError: the device has no board that is emulated, or compiling or running failed.
        """
        ...
