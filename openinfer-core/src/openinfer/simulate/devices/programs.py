"""What devices offer that run whole programs, from their inputs to their results, and keep persistent variables.

Such a device carries out the execution plan, fused and in the plan's order, and yields the plan's results only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from openinfer.ir.resolved import Storage
from openinfer.simulate.devices.backend import DeviceBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.simulate.devices.backend import Buffer
    from openinfer.simulate.values import Tensor

    Array: TypeAlias = npt.NDArray[Any]

    BoundProgram: TypeAlias = Callable[[], bool]
    """Runs one step; False when it failed, in which case nothing that it wrote counts."""


@runtime_checkable
class ProgramBackend(DeviceBackend, Protocol):
    """A device that also runs whole programs.

    It may have an attribute ``arch``, the `openinfer.DeviceArch` of its machine, for which plans are made, and with it
    ``schedules``, the `openinfer.plan.schedules.ScheduleFile` of a user.
    """

    def bind_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> BoundProgram:
        """Return a call that runs a plan from the buffers of its inputs to those of its outputs, by name.

        No output is one of the inputs. Inputs hold values whenever the call is made.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step failed.

    Attributes:
        code: ``out-of-range``, ``cache-limit`` or ``shape-mismatch``.
        node: number of the statement in the graph; None: it is not known.
    """

    code: str
    message: str
    node: int | None


class StateProgram(Protocol):
    """A program with its state.

    Values are by the names of persistent variables, and ``K.t`` for how far index ``t`` of a cache ``K`` has grown. A
    cache has its whole room, with initial values where nothing was stored. Arrays are in storage form.
    """

    def step(self) -> Fault | None:
        """Run a step; one that fails keeps what it changed before."""
        ...

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes that results had in the latest step, of those whose shape is known at run time only."""
        ...

    def reset(self) -> None:
        """Give all variables their initial values."""
        ...

    def get(self) -> dict[str, Array]:
        """Return a copy of all variables."""
        ...

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        ...


class StartedStep(Protocol):
    """A step that does not fail, and that the device may still be running."""

    def done(self) -> bool:
        """Whether the step has ended."""
        ...

    def results(self) -> Mapping[str, Tensor]:
        """Wait for the end of the step; return what the outputs were then, which later steps do not change."""
        ...


@runtime_checkable
class OverlappingProgram(StateProgram, Protocol):
    """A program whose next step can be started while the device runs one."""

    def start(self) -> StartedStep | Fault:
        """Start a step, when at most one is unfinished; return why it failed where it did, as `step`."""
        ...


@runtime_checkable
class StateBackend(DeviceBackend, Protocol):
    """A device that runs programs whose state it keeps."""

    def open_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> StateProgram:
        """Return a plan with memory for its state, bound to the buffers of its inputs and outputs, by name."""
        ...


class SizedProgram(Protocol):
    """A program for steps of all sizes up to the largest ones of its plan (`ExecutionPlan.given_sizes`)."""

    def at(self, sizes: Mapping[str, int], inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> StateProgram:
        """Return the program for steps of some sizes, bound to the buffers of its inputs and outputs, by name.

        All that are returned are one program with one state: what one changes, the others have.

        Args:
            sizes: those of the plan, by name.
            inputs: buffers of the shapes that inputs have at these sizes.
            outputs: likewise; of those whose shape is known at run time only, buffers of the largest shape.
        """
        ...


@runtime_checkable
class SizedBackend(StateBackend, Protocol):
    """A device that runs one plan at all sizes of steps, within limits."""

    def open_sized_program(self, plan: ExecutionPlan) -> SizedProgram:
        """Return a plan that has `ExecutionPlan.given_sizes`, with memory for its state and for its largest sizes."""
        ...


def keeps_state(resolved: ResolvedGraph) -> bool:
    """Whether a program has persistent variables."""
    return any(variable.storage is Storage.PERSISTENT for variable in resolved.variables.values())
