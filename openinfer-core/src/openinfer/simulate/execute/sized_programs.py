"""One plan for the steps of all sizes within limits, on devices that run such plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import OpenInferError, UnsupportedError
from openinfer.plan import limits_of
from openinfer.simulate.devices.programs import keeps_state
from openinfer.simulate.execute.device_state import state_of
from openinfer.simulate.execute.node_by_node import after_plan, before_plan
from openinfer.simulate.logs import LogKind, log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.devices.programs import SizedBackend, SizedProgram
    from openinfer.simulate.execute.device_state import DeviceState
    from openinfer.simulate.state.program_memory import ProgramMemory


MOST_NBYTES = 1 << 31
"""Most bytes of intermediate results, inputs and results at the limits: a step of any size may touch all of them.

A plan for one size takes what that size needs, which helps where a limit is a guess.
"""


@dataclass(frozen=True, slots=True, eq=False)
class OpenedProgram:
    """A plan for many sizes on a device.

    Attributes:
        state: its persistent variables, which it keeps from a step to one of other sizes.
    """

    plan: ExecutionPlan
    program: SizedProgram
    state: DeviceState


class SizedPrograms:
    """The program of an executor for the sizes that have limits, planned and opened when it is first needed.

    Attributes:
        most: the limits of sizes.
    """

    def __init__(
        self,
        usual: ResolvedGraph,
        model: Model,
        backend: SizedBackend,
        binder: Binder,
        limits: Mapping[str, int],
        resized: Callable[[Mapping[str, int]], ResolvedGraph],
    ) -> None:
        """Begin without a plan.

        Args:
            usual: the program at its usual sizes; those without a limit keep them.
            limits: of sizes, and how far caches may grow.
            resized: returns the program at other sizes.

        Raises:
            SynthesisError: ``size-limit``: a limit is not positive, or of a size that is the same in every step.
        """
        self._usual, self._model, self._backend, self._binder = usual, model, backend, binder
        self._limits, self._resized = limits, resized
        self.most = limits_of(usual.graph, model, limits).sizes
        self._opened: OpenedProgram | None = None
        self._is_tried = False

    def of(self, resolved: ResolvedGraph, memory: ProgramMemory) -> OpenedProgram | None:
        """Return the program where it runs steps of the sizes of ``resolved``; None: these need a plan of their own.

        Args:
            memory: shares its persistent values with all sizes.
        """
        if not self.most or not all(self._covers(size, extent) for size, extent in resolved.sizes.items()):
            return None
        if not self._is_tried:
            self._is_tried = True
            try:
                self._opened = self._made(memory)
            except (OpenInferError, MemoryError) as error:
                self._give_up(error)
        return self._opened

    def accepts(self, bind: Callable[[], object]) -> bool:
        """Bind the program at some sizes; return False, and have it for no others, where the device refuses it."""
        try:
            bind()
        except (OpenInferError, MemoryError) as error:
            self._give_up(error)
        return self._opened is not None

    def _give_up(self, error: Exception) -> None:
        log(LogKind.TRACE, f"{self._binder.device} makes a plan for each size of steps: {error}")
        self._opened = None

    def _covers(self, size: str, extent: int) -> bool:
        most = self.most.get(size)
        return extent == self._usual.sizes[size] if most is None else extent <= most

    def _made(self, memory: ProgramMemory) -> OpenedProgram:
        """Return the program, planned at the limits.

        Raises:
            OpenInferError: the program does not fit the limits, or no plan holds it, or the device cannot run it.
            MemoryError: its state does not fit into memory.
        """
        largest, fits = self._resized(self.most), self._binder.runs_fitting
        _refuse(before_plan(largest, state=True, fits=fits))
        plan = self._binder.plan(largest, self._model, self._limits, self.most)
        _refuse(after_plan(largest, plan, state=fits or keeps_state(largest)))
        nbytes = plan.arena_nbytes + sum(port.type.nbytes for port in (*plan.inputs, *plan.outputs))
        if nbytes > MOST_NBYTES:
            raise UnsupportedError(f"at the limits, a step takes {nbytes:,} bytes, more than {MOST_NBYTES:,}")
        return OpenedProgram(plan, self._backend.open_sized_program(plan), state_of(plan, memory, self._backend))


def _refuse(reason: Diagnostic | None) -> None:
    if reason is not None:
        raise UnsupportedError(reason.message)
