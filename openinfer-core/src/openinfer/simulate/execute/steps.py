"""The steps of an executor: begun with the sizes of their inputs, run whole or node by node, and ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from openinfer.errors import ExecutionError, ShapeError, StepStateError
from openinfer.ir.resolved import Storage
from openinfer.simulate.devices.deferred_faults import drop_faults, first_failure
from openinfer.simulate.execute.results import Results
from openinfer.simulate.execute.step_sizes import agreed_sizes
from openinfer.simulate.execute.whole_program import WholeStateProgram
from openinfer.simulate.logs import LogKind, log
from openinfer.simulate.program.machine import Machine
from openinfer.simulate.state.host import need_name

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from openinfer.events import TraceEvent
    from openinfer.simulate.devices.programs import StartedStep
    from openinfer.simulate.execute.bindings import Binding, Bindings
    from openinfer.simulate.execute.observers import Observers
    from openinfer.simulate.program.machine import Frame, Record
    from openinfer.simulate.program.recording import Recorder
    from openinfer.simulate.state.host import Host

T = TypeVar("T")


class Steps:
    """Runs steps, one at a time.

    Attributes:
        binding: the program bound for the sizes of the next step, or of the one that runs.
        results: what the latest step returned.
    """

    def __init__(
        self,
        bindings: Bindings,
        free: frozenset[str],
        recorder: Recorder,
        observers: Observers | None,
        *,
        tracing: bool,
    ) -> None:
        """Begin before the first step.

        Args:
            bindings: the program, bound for the sizes of steps.
            free: sizes that may differ from step to step.
            recorder: keeps the events of nodes, where ``tracing`` is on.
            observers: see the events of every step.
            tracing: whether events are recorded.
        """
        self.binding = bindings.usual
        self.results = Results()
        self._bindings = bindings
        self._free = free
        self._given: dict[str, tuple[int, str]] = {}
        self._recorder = recorder
        self._observers = observers
        self._tracing = tracing
        self._ran = bindings.usual
        self._whole = bindings.usual.whole
        self._machine: Machine | None = None
        self._ended = bindings.usual.resolved
        self._has_failed = self._has_failed_whole = False

    @property
    def frames(self) -> Sequence[Frame]:
        """Runs of blocks and loops that have not ended, outermost first, then those of a consumer stepped into."""
        entry = () if self._machine is None else self._machine.frames
        consumer = self.binding.consumers.stepped_into
        return entry if consumer is None else [*entry, *consumer.machine.frames]

    @property
    def is_running(self) -> bool:
        """Whether a step has begun and not ended."""
        return self._machine is not None and bool(self.frames)

    @property
    def runs_whole(self) -> bool:
        """Whether the device runs steps whole at this moment."""
        return self._whole is not None and not self._tracing

    def need_idle(self, what: str) -> None:
        """Refuse a request while a step is running.

        Raises:
            StepStateError: a step is running.
        """
        if self.is_running:
            raise StepStateError(f"cannot {what} while a step is running: exhaust or close its iterator first")
        if self._machine is not None:
            self._end(self._machine)

    def close(self) -> None:
        """Give up the step that runs, and release the consumers."""
        self._machine = None
        for binding in self._bindings:
            binding.consumers.close()

    # The host between steps.

    def insert(self, entered: Mapping[str, Any], native: Sequence[str] = ()) -> None:
        """Give dynamic variables their values for the next step: all of them, or none when one is refused.

        Args:
            native: those whose values other code puts into their buffers.
        """
        self.need_idle("insert values")
        if not entered and not native:
            return
        sizes = agreed_sizes(self.binding.resolved, self._free, entered, self._given) if self._free else self._given
        binding = self._binding_of(sizes)
        values = binding.inputs.checked(entered)
        if binding is not self.binding:
            self._need_fitting(binding, sizes, entered)
        self.results.keep(self.binding.host, (*entered, *native))
        self._use(binding)
        self._given = sizes
        binding.inputs.insert(values)
        for name in native:
            binding.memory.note_inserted(name)
        self._note_inputs()

    def settle(self, *, changing: bool = False) -> None:
        """Copy persistent variables that the device keeps to memory; ``changing``: memory is about to change them."""
        if self._whole is not None:
            self._whole.settle(changing=changing)

    def before_change(self, what: str) -> None:
        """Prepare a change of persistent variables by the host.

        Raises:
            StepStateError: a step is running.
        """
        self.need_idle(what)
        self.settle(changing=True)
        self.results.keep(self.binding.host)

    @property
    def seen(self) -> Host:
        """Values as the statement sees them that runs next."""
        consumer = self.binding.consumers.stepped_into
        return self.binding.host if consumer is None else consumer.host

    def host_of(self, access: str) -> Host:
        """Return where a value is read: where sizes have changed since the last step, in memory of that step."""
        need_name(access, "fetch")
        variable = self.binding.resolved.variables.get(_variable_of(access))
        if self._ran is self.binding or (variable is not None and variable.storage is Storage.DYNAMIC):
            return self.seen
        return self._ran.host

    def complete(self, accesses: Sequence[str]) -> None:
        """Run the latest step again where it was run whole and did not leave a value that is requested.

        Steps of these sizes are run node by node then, since more than results is requested.
        """
        for access in accesses:
            self.need_value(access)
        if any(self._is_persistent(access) for access in accesses):
            self.settle()
        ran = self._ran.whole
        if self.is_running or ran is None or not ran.needs_rerun(accesses):
            return
        self.settle()
        log(LogKind.TRACE, "a value other than a result is fetched: the latest step runs again, node by node")
        self._whole = None
        self.binding.memory.insert_again()
        self._run_by_node(None)

    def need_value(self, access: str) -> None:
        """Refuse a variable that the latest step was to write, where that did not end and left no value.

        A step that ran whole may have left anything. One that ran node by node left initial values where nodes had not
        written yet: if its sizes are new, a variable of these sizes had no value before.

        Raises:
            StepStateError: the latest step did not end, and writes the variable.
        """
        need_name(access, "fetch")
        if self._machine is not None or not (self._has_failed_whole or self._ran.resolved is not self._ended):
            return
        name, memory = _variable_of(access), self._ran.memory
        variable = memory.variables.get(name)
        if variable is None or variable.storage is not Storage.VOLATILE or name not in memory.written_names:
            return
        if self._has_failed_whole or variable.type != self._ended.variables[name].type:
            message = f"`{name}` holds no value: the last step, which writes it, did not end"
            raise StepStateError(
                f"{message}; run a step, or read values before the failure in an iteration (`iterate`)"
            )

    def _is_persistent(self, access: str) -> bool:
        variable = self.binding.resolved.variables.get(_variable_of(access))
        return variable is not None and variable.storage is Storage.PERSISTENT

    # Sizes of steps.

    def _binding_of(self, sizes: Mapping[str, tuple[int, str]]) -> Binding:
        if not self._free:
            return self.binding
        extents = {size: extent for size, (extent, _) in sizes.items()}
        return self._bindings.of(extents, in_use=(self.binding, self._ran))

    def _need_fitting(self, binding: Binding, sizes: Mapping[str, tuple[int, str]], entered: Mapping[str, Any]) -> None:
        """Refuse sizes that earlier values of this step do not fit, unless these are inserted again.

        Raises:
            ShapeError: ``insert-mismatch``.
        """
        old, new = self.binding.memory, binding.memory
        for name in old.inserted():
            if name not in entered and old.variables[name].type != new.variables[name].type:
                shown = ", ".join(f"{size} = {extent} by `{giver}`" for size, (extent, giver) in sizes.items())
                message = f"`{name}` was inserted as {old.variables[name].type}, and is {new.variables[name].type} with"
                raise ShapeError(f"{message} {shown}: insert `{name}` again with them", code="insert-mismatch")

    def _use(self, binding: Binding) -> None:
        """Use the program bound for the sizes of the next step; values that were inserted for it go along."""
        if binding is not self.binding:
            if self._whole is None or not self._whole.shares_state(binding.whole):
                self.settle(changing=True)
            self.results.keep(self.binding.host)
            binding.memory.take_inserted(self.binding.memory)
            self._note_inputs()
            self.binding, self._whole = binding, binding.whole

    def _note_inputs(self) -> None:
        if self._ran.whole is not None:
            self._ran.whole.note_inputs()

    def _settle_sizes(self) -> None:
        """Use the usual sizes where nothing was inserted that has any."""
        if self._free and not self._given:
            self._use(self._binding_of({}))

    # Whole steps.

    def run(self) -> TraceEvent | None:
        """Run a step, whole where the device can; return its last event."""
        self._settle_sizes()
        whole = self._whole
        if whole is not None and self._tried(whole.run, whole.returned):
            return self._recorder.event_of(self.binding.last)
        return self.run_by_node(None)

    def start(self) -> tuple[StartedStep, tuple[str, ...]] | None:
        """Start a step, and return it with the names of its results; None where it has to be run to its end."""
        if self._tracing:
            return None
        self._settle_sizes()
        whole = self._whole
        if not isinstance(whole, WholeStateProgram):
            return None
        started = self._tried(whole.start, whole.returned)
        return None if started is None else (started, whole.returned)

    def _tried(self, run: Callable[[], T | None], returned: tuple[str, ...]) -> T | None:
        """Return what ``run`` returns for a step; None, also for False, where the step is to be run in another way."""
        self.need_idle("begin a step")
        memory = self.binding.memory
        self._ran = self.binding
        self.results.begin()
        memory.begin_step(volatile=False)
        sizes_before, self._given = self._given, {}
        self._has_failed = self._has_failed_whole = True
        outcome = run()
        self._has_failed = self._has_failed_whole = False
        if outcome is None or outcome is False:
            self._given = sizes_before
            memory.insert_again()
            return None
        memory.end_step()
        self._ended = self.binding.resolved
        self.results.begin(returned)
        return outcome

    # Steps node by node.

    def run_by_node(self, record: Record | None) -> TraceEvent | None:
        """Run a step without a stop, and return its last event where none is recorded."""
        self.need_idle("begin a step")
        self._settle_sizes()
        return self._run_by_node(record)

    def _run_by_node(self, record: Record | None) -> TraceEvent | None:
        machine = self._begin(merged=True, record=record)
        try:
            self._has_failed = True
            with np.errstate(all="ignore"), first_failure(self._recorder.backend):
                machine.run()
                machine.finish()
                self._recorder.backend.synchronize()
            self._has_failed = False
        except ExecutionError as error:
            log(LogKind.ERROR, f"step failed in block {error.block}: {error}")
            raise
        finally:
            self._end(machine)
        return self._recorder.latest(machine) if record is None else None

    def nodes(
        self, *, by_block: bool, consumers: bool, watch: Callable[[TraceEvent], None] | None
    ) -> Generator[tuple[TraceEvent, Exception | None]]:
        """Run a step, and yield the event of every node, and the error with which it ended a consumer.

        Args:
            by_block: yield only the last node of every run of a block.
            consumers: yield nodes of consumer blocks too.
            watch: called right after every node, those of consumers included.
        """
        record = self._recorder.record(None if self._tracing else [])
        self.need_idle("begin a step")
        self._settle_sizes()
        machine = self._begin(merged=False, record=record, consumers=consumers or watch is not None)
        try:
            while self.is_running:
                is_of_consumer = self.binding.consumers.stepped_into is not None
                self._has_failed = True
                with first_failure(self._recorder.backend):
                    event, failure, ended = self._run_node(machine, record)
                self._has_failed = False
                if watch is not None:
                    watch(event)
                if is_of_consumer and not consumers:
                    continue
                if not by_block:
                    yield event, failure
                    continue
                for block in ended:
                    if block.last is not None:
                        yield block.last, None
            self._has_failed = True
            with first_failure(self._recorder.backend):
                machine.finish()
                # Devices may notice a failure after the node has been submitted.
                self._recorder.backend.synchronize()
            self._has_failed = False
        except ExecutionError as error:
            self.binding.consumers.finish()
            log(LogKind.ERROR, f"step failed in block {error.block}: {error}")
            raise
        finally:
            self._end(machine)

    def _run_node(self, machine: Machine, record: Record) -> tuple[TraceEvent, Exception | None, list[Frame]]:
        """Run a node of ``entry``, or of the consumer that is stepped into; return the blocks that it ended last."""
        consumers = self.binding.consumers
        if consumers.stepped_into is not None:
            event, steps = consumers.advance()
            return event, steps.failure, list(steps.machine.ended)
        event = self._recorder.advance(machine, record)
        if not self._tracing:
            record.events.clear()
        return event, None, list(machine.ended)

    def _begin(self, *, merged: bool, record: Record | None, consumers: bool = False) -> Machine:
        self.need_idle("begin a step")
        self._given = {}
        self._has_failed = self._has_failed_whole = False
        binding = self._ran = self.binding
        self.settle(changing=True)
        if binding.whole is not None:
            binding.whole.note_nodes()
        self.results.begin()
        binding.memory.begin_step()
        exchange = binding.consumers.exchange(merged=merged, stepping=consumers)
        entry, one_by_one = binding.codes["entry"], not merged or exchange is not None
        self._machine = Machine(binding.memory, entry, merged=not one_by_one, exchange=exchange, record=record)
        return self._machine

    def _end(self, machine: Machine) -> None:
        if self._machine is not machine:
            return
        self.binding.consumers.drop()
        if machine.exchange is not None:
            machine.exchange.abandon()
        drop_faults(self._recorder.backend)
        self._machine = None
        self.binding.memory.end_step()
        has_ended = not machine.frames and not self._has_failed
        self._ended = self._ran.resolved if has_ended else self._ended
        self.results.begin(machine.returned if has_ended else ())
        if self._observers is not None:
            self._observers.observe(self._recorder.events())


def _variable_of(access: str) -> str:
    return access.partition("[")[0].strip()
