"""Programs that a device runs whole, and why one does not.

Every device can also run a program node by node: that is done where intermediate values are inspected. No step of a
program whose persistent variables the device keeps runs again: all volatile variables that it writes are results.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import Diagnostic
from openinfer.errors import DeviceError, KernelMissingError, StepStateError, SynthesisError, UnsupportedError
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Return
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType
from openinfer.plan import PlanOptions, limits_of, make_plan
from openinfer.plan.findings import findings_of
from openinfer.plugins.selection import kernel_table
from openinfer.simulate.devices.programs import (
    Fault,
    OverlappingProgram,
    ProgramBackend,
    StateBackend,
    keeps_state,
)
from openinfer.simulate.execute.device_state import state_of
from openinfer.simulate.execute.node_by_node import BY_NODE, after_plan, before_plan, notes, takes_shape
from openinfer.simulate.program.failures import raise_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanOutput
    from openinfer.plugins.environment import Environment
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.devices.programs import BoundProgram, StartedStep, StateProgram
    from openinfer.simulate.execute.device_state import DeviceState
    from openinfer.simulate.execute.sized_programs import OpenedProgram, SizedPrograms
    from openinfer.simulate.state.program_memory import ProgramMemory

    Opener: TypeAlias = Callable[[Mapping[str, Buffer], Mapping[str, Buffer]], StateProgram]
    """Returns a program bound to the buffers of its inputs and outputs, by name."""


class WholeProgram:
    """A program on a `ProgramBackend`, with the memory that its nodes use too.

    After `run`, variables that the program writes and that are not results hold what some other step left there.

    Attributes:
        returned: the names in the return of ``entry``.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        backend: ProgramBackend,
        memory: ProgramMemory,
        returned: tuple[str, ...],
        opener: Opener | None = None,
    ) -> None:
        """Begin before the program is bound.

        Args:
            opener: opens the program at the sizes of the memory; None: the backend binds the plan, which is of these.
        """
        self.returned = returned
        self._plan = plan
        self._backend = backend
        self._memory = memory
        self._results = frozenset(port.name for port in plan.outputs)
        kept = (name for name in memory.written_names if memory.variables[name].storage is not Storage.TEMPORARY)
        self._left_out = frozenset(kept) - self._results
        self._opener = opener
        self._bound: BoundProgram | None = None
        self._is_latest = False
        self._has_new_inputs = False

    @property
    def is_opened(self) -> bool:
        """Whether the device has accepted it: a plan for many sizes is opened when it is made."""
        return bool(self._plan.given_sizes)

    def settle(self, *, changing: bool = False) -> None:
        """Let memory have what persistent variables are; ``changing``: it is about to change them."""

    def shares_state(self, other: WholeProgram | None) -> bool:
        """Whether another program on the device has the persistent variables that this one leaves."""
        del other
        return False

    def run(self) -> bool:
        """Run a step, of which memory is at the start; return whether it was done."""
        missing = self._memory.conditional - self._memory.available
        if any(port.needed and port.name in missing for port in self._plan.inputs):
            return False
        bound = self.bind()
        self._is_latest, self._has_new_inputs = False, False
        try:
            self._is_latest = bound()
        except BaseException:  # A signal ended the step, which counts as failed.
            self._memory.end_step()
            raise
        return self._is_latest

    def bind(self) -> BoundProgram:
        """Bind the program to memory, if that was not done yet.

        Raises:
            OpenInferError: the backend cannot run it.
        """
        if self._bound is None:
            self._bound = self._made()
        return self._bound

    def _made(self) -> BoundProgram:
        if self._opener is None:
            return self._backend.bind_program(self._plan, self._inputs(), self._outputs())
        program = self._opener(self._inputs(), self._outputs())
        return lambda: program.step() is None

    def _inputs(self) -> dict[str, Buffer]:
        return {port.name: self._memory.buffer(port.name) for port in self._plan.inputs}

    def _outputs(self) -> dict[str, Buffer]:
        return {port.name: self._result(port) for port in self._plan.outputs}

    def _result(self, port: PlanOutput) -> Buffer:
        """Return where a result goes: to scratch memory where the variable has it already and may be read-only."""
        is_written = port.name in self._memory.written_names and not self._takes_shape(port)
        return self._memory.buffer(port.name) if is_written else self._backend.allocate(port.type)

    def _takes_shape(self, port: PlanOutput) -> bool:
        return takes_shape(port, self._plan, self._memory.variables)

    def note_inputs(self) -> None:
        """Note that inputs are those of the next step."""
        self._has_new_inputs = True

    def note_nodes(self) -> None:
        """Note that a step is run node by node."""
        self._is_latest = False

    def needs_rerun(self, accesses: Iterable[str]) -> bool:
        """Return whether a value is missing, since the latest step ran whole and left only its results.

        Raises:
            StepStateError: it is, and the inputs of that step are gone.
        """
        if not self._is_latest:
            return False
        name = next((n for n in (a.partition("[")[0].strip() for a in accesses) if n in self._left_out), None)
        if name is not None and self._has_new_inputs:
            message = f"`{name}` is not a result of the program, which ran whole: fetch it before inserting new values"
            raise StepStateError(f"{message}, or name it in the return of entry")
        return name is not None


class WholeStateProgram(WholeProgram):
    """A program whose persistent variables the device keeps; memory is brought up to date on demand."""

    def __init__(
        self,
        plan: ExecutionPlan,
        backend: ProgramBackend,
        memory: ProgramMemory,
        returned: tuple[str, ...],
        opener: Opener,
        resolved: ResolvedGraph,
        state: DeviceState,
    ) -> None:
        super().__init__(plan, backend, memory, returned)
        self._resolved, self._open, self.state = resolved, opener, state
        self._left_out = frozenset[str]()
        self._program: StateProgram | None = None
        self._varying: dict[str, Buffer] = {}
        self._fixed: dict[str, tuple[int, ...]] = {}

    def settle(self, *, changing: bool = False) -> None:
        self.state.settle(changing=changing)

    def shares_state(self, other: WholeProgram | None) -> bool:
        return isinstance(other, WholeStateProgram) and other.state is self.state

    def _made(self) -> BoundProgram:
        outputs = self._outputs()
        ports = [port for port in self._plan.outputs if self._takes_shape(port)]
        self._varying = {port.name: outputs[port.name] for port in ports}
        self._fixed = {port.name: port.type.shape for port in ports if port.extents is None}
        self._program = program = self._open(self._inputs(), outputs)
        return lambda: self._step(program)

    def start(self) -> StartedStep | None:
        """Start a step, of which memory is at the start; None where the program can only run whole steps to the end.

        Raises:
            ExecutionError: the step failed.
        """
        missing = self._memory.conditional - self._memory.available
        if any(port.needed and port.name in missing for port in self._plan.inputs):
            return None
        self.bind()
        program = self._program
        if not isinstance(program, OverlappingProgram) or self._varying:
            return None
        self.state.catch_up(program)
        started = program.start()
        if isinstance(started, Fault):
            raise_fault(started, self._resolved)
        return started

    def _step(self, program: StateProgram) -> bool:
        self.state.catch_up(program)
        fault = program.step()
        if fault is not None:
            raise_fault(fault, self._resolved)
        shapes = self._fixed | dict(program.shapes())
        for name in self._varying:
            self._hold(name, shapes[name])
        return True

    def _hold(self, name: str, shape: tuple[int, ...]) -> None:
        """Let a variable have the elements in front of its room, in the shape that they have."""
        room, varying = self._varying[name], self._memory.varying(name)
        if varying is None:
            raise TypeError(f"{name} has one shape, found {shape}")
        kind = TensorType(room.type.dtype, shape)
        elements = self._backend.read(room).reshape(-1)[: kind.count]
        buffer = varying.buffer(kind)
        self._backend.write(buffer, elements.reshape(shape))
        varying.hold(buffer)


def whole_program(
    resolved: ResolvedGraph,
    model: Model,
    backend: DeviceBackend,
    binder: Binder,
    memory: ProgramMemory,
    limits: Mapping[str, int] | None = None,
    sized: SizedPrograms | None = None,
) -> WholeProgram | tuple[Diagnostic, ...]:
    """Return the program as a device runs it whole, or why it runs node by node; nothing where the device always does.

    Raises:
        DeviceError: the device is lost, or closed; ``too-large``, it has no memory for shapes that no step changes.
        SynthesisError: the device cannot run the program; the message names the statement.
    """
    if not isinstance(backend, ProgramBackend):
        return ()
    fits, keeps = binder.runs_fitting, keeps_state(resolved)
    reason = before_plan(resolved, state=isinstance(backend, StateBackend), fits=fits)
    if reason is not None:
        return (reason,)
    owner = backend if isinstance(backend, StateBackend) and (keeps or fits) else None
    opened = None if sized is None else sized.of(resolved, memory)
    if sized is not None and opened is not None:
        whole = _whole(resolved, opened.plan, opened, backend, owner, memory)
        if sized.accepts(whole.bind):
            return whole
    try:
        plan = binder.plan(resolved, model, limits)
    except SynthesisError as error:
        if error.code in BY_NODE or fits:
            return findings_of(error)
        raise
    reason = after_plan(resolved, plan, state=owner is not None)
    if reason is not None:
        return (reason,)
    whole = _whole(resolved, plan, None, backend, owner, memory)
    return _bound(whole, resolved) if fits else whole


def _bound(whole: WholeProgram, resolved: ResolvedGraph) -> WholeProgram | tuple[Diagnostic, ...]:
    """Return a program that is bound, or why the device cannot run it; raises as `whole_program`."""
    try:
        whole.bind()
    except SynthesisError as error:
        return findings_of(error)
    except (KernelMissingError, UnsupportedError) as error:
        return (Diagnostic(code=error.code, message=str(error)),)
    except DeviceError as error:
        # A plan reserves room for the largest shapes, where nodes take what the values of a step need.
        if error.code != "too-large" or not any(variable.varying for variable in resolved.variables.values()):
            raise
        hint = "give what sizes are computed from a type with fewer values, such as i8"
        return (Diagnostic(code=error.code, message=str(error), hint=hint),)
    return whole


def _whole(
    resolved: ResolvedGraph,
    plan: ExecutionPlan,
    opened: OpenedProgram | None,
    backend: ProgramBackend,
    owner: StateBackend | None,
    memory: ProgramMemory,
) -> WholeProgram:
    """Return a plan as a program; ``owner`` is the backend where that keeps its state."""
    nodes = walk(resolved.graph.blocks["entry"].nodes)
    returned = next(node.kind.names for node in nodes if isinstance(node.kind, Return))
    opener = None if opened is None else partial(opened.program.at, resolved.sizes)
    if owner is None:
        return WholeProgram(plan, backend, memory, returned, opener)
    state = state_of(plan, memory, backend) if opened is None else opened.state
    opener = opener or partial(owner.open_program, plan)
    return WholeStateProgram(plan, backend, memory, returned, opener, resolved, state)


def device_findings(
    resolved: ResolvedGraph,
    model: Model,
    device: str,
    environment: Environment,
    limits: Mapping[str, int] | None = None,
) -> tuple[Diagnostic, ...]:
    """Return why a device that runs whole programs refuses this one, or as notes why it runs it node by node.

    There is nothing to say of other devices. None is opened, so what only the hardware does not support is not found.

    Raises:
        DeviceError: ``device`` is unknown.
        SynthesisError: ``size-limit``: a limit is about nothing.
    """
    spec = environment.device(device.partition(":")[0])
    fits = spec.fitting_programs
    if not fits and not spec.whole_programs:
        return ()
    reason = before_plan(resolved, state=spec.state, fits=fits)
    if reason is not None:
        return notes(spec.name, (reason,))
    caches = limits_of(resolved.graph, model, limits or {}).caches
    options = PlanOptions(scheduled=not fits, inspected=fits or keeps_state(resolved), limits=caches)
    try:
        plan = make_plan(resolved, model, environment, kernel_table(environment, spec), options)
    except SynthesisError as error:
        findings = findings_of(error)
        return notes(spec.name, findings) if fits or error.code in BY_NODE else findings
    reason = after_plan(resolved, plan, state=spec.state and (fits or keeps_state(resolved)))
    return () if reason is None else notes(spec.name, (reason,))
