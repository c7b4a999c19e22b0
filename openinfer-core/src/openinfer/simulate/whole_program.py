"""Devices that run whole programs: what is asked of them, and steps that are run so.

Such a device carries out the execution plan, fused and in the plan's order, and yields the plan's results only. It
can also run a program node by node, as every `DeviceBackend` can: that is done wherever somebody looks at more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from openinfer.errors import StepStateError, SynthesisError
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Return
from openinfer.ir.resolved import Storage
from openinfer.plan import plan_findings
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.backend import DeviceBackend

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanOutput
    from openinfer.plugins.environment import Environment
    from openinfer.simulate.backend import Buffer
    from openinfer.simulate.binding import Binder
    from openinfer.simulate.memory import Memory

    BoundProgram: TypeAlias = Callable[[], bool]
    """Runs one step; False when it failed, in which case nothing that it wrote counts."""

NO_OUTPUTS = "no-outputs"
"""The code of a program without results, which is run node by node."""


@runtime_checkable
class ProgramBackend(DeviceBackend, Protocol):
    """A device that also runs whole programs.

    It may have an attribute ``arch``, the `openinfer.DeviceArch` that plans are made for: the machine that it is, and
    with it ``schedules``, the `openinfer.plan.schedules.ScheduleFile` of a user.
    """

    def bind_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> BoundProgram:
        """Return a call that runs a plan from the buffers of its inputs to those of its outputs, by name.

        No output is one of the inputs. Inputs hold values whenever the call is made.
        """
        ...


class WholeProgram:
    """A program on a `ProgramBackend`, with the memory that its nodes use too.

    After `run`, variables that the program writes and that are no results hold what some other step left there.

    Attributes:
        returned: the names in the return of ``entry``.
    """

    def __init__(self, plan: ExecutionPlan, backend: ProgramBackend, memory: Memory, returned: tuple[str, ...]) -> None:
        self.returned = returned
        self._plan = plan
        self._backend = backend
        self._memory = memory
        self._results = frozenset(port.name for port in plan.outputs)
        kept = (name for name in memory.written_names if memory.variables[name].storage is not Storage.TEMPORARY)
        self._left_out = frozenset(kept) - self._results
        self._bound: BoundProgram | None = None
        self._is_latest = False
        self._has_new_inputs = False

    def run(self) -> bool:
        """Run a step, of which memory is at the start; return whether it was done."""
        missing = self._memory.conditional - self._memory.available
        if any(port.needed and port.name in missing for port in self._plan.inputs):
            return False
        if self._bound is None:
            inputs = {port.name: self._memory.buffer(port.name) for port in self._plan.inputs}
            outputs = {port.name: self._result(port) for port in self._plan.outputs}
            self._bound = self._backend.bind_program(self._plan, inputs, outputs)
        self._is_latest, self._has_new_inputs = False, False
        try:
            self._is_latest = self._bound()
        except BaseException:  # A signal ended the step, which counts as failed.
            self._memory.end_step()
            raise
        return self._is_latest

    def _result(self, port: PlanOutput) -> Buffer:
        """Return where a result goes: to scratch memory where the variable has it already and may be read-only."""
        is_written = port.name in self._memory.written_names
        return self._memory.buffer(port.name) if is_written else self._backend.allocate(port.type)

    def note_inputs(self) -> None:
        """Note that inputs are those of the next step."""
        self._has_new_inputs = True

    def note_nodes(self) -> None:
        """Note that a step is run node by node."""
        self._is_latest = False

    def lacks(self, accesses: Iterable[str]) -> bool:
        """Return whether a value is not what the latest step would have left, because that was run whole.

        Raises:
            StepStateError: it is, and the inputs of that step are gone.
        """
        if not self._is_latest:
            return False
        name = next((n for n in (a.partition("[")[0].strip() for a in accesses) if n in self._left_out), None)
        if name is not None and self._has_new_inputs:
            message = f"`{name}` is no result of the program, which ran whole: fetch it before inserting new values"
            raise StepStateError(f"{message}, or name it in the return of entry")
        return name is not None


def whole_program(
    resolved: ResolvedGraph, model: Model, backend: DeviceBackend, binder: Binder, memory: Memory
) -> WholeProgram | None:
    """Return the program as a device runs it whole; None where the device does not, where nodes have to be followed, or
    where there is no result that a whole program could have.

    Raises:
        SynthesisError: the device cannot run the program; the message names the statement.
    """
    if not isinstance(backend, ProgramBackend):
        return None
    try:
        plan = binder.plan(resolved, model)
    except SynthesisError as error:
        if error.code == NO_OUTPUTS:
            return None
        raise
    nodes = resolved.graph.blocks["entry"].nodes
    returns = [(node, node.kind.names) for node in walk(nodes) if isinstance(node.kind, Return)]
    # Which of several returns was taken, or what an input became, is known only from the nodes.
    shared = {port.name for port in plan.inputs} & {port.name for port in plan.outputs}
    if shared or [node for node, _ in returns] != [nodes[-1]]:
        return None
    return WholeProgram(plan, backend, memory, returned=returns[0][1])


def device_findings(
    resolved: ResolvedGraph, model: Model, device: str, environment: Environment
) -> tuple[Diagnostic, ...]:
    """Return why a device that runs whole programs refuses this one; nothing for other devices. None is opened.

    Raises:
        DeviceError: ``device`` is unknown.
        SynthesisError: it is refused for what has no place in the program.
    """
    spec = environment.device(device.partition(":")[0])
    if not spec.whole_programs:
        return ()
    table = kernel_table(environment, spec)
    # A program without results is run node by node.
    return tuple(found for found in plan_findings(resolved, model, environment, table) if found.code != NO_OUTPUTS)
