"""What a synth target must be able to do. Plugins implement `SynthTarget`; the synthesizer drives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.bundle import Bundle

    Array: TypeAlias = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a synthesised program yields.

    Attributes:
        micros: microseconds of a step by the wall clock, the mean over all steps. A step that was repeated counts with
            its shortest run, one that was not with its only run, and with what only a first run has to do.
    """

    outputs: Mapping[str, Array]
    micros: float

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
