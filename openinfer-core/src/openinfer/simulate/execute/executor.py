"""An executor: one program with its own memory, stepped by the host (``specification: runtime.host``)."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from openinfer.boundary import public, public_methods
from openinfer.errors import ExecutionError, StepStateError
from openinfer.ir.concurrency import reached_blocks
from openinfer.ir.resolved import Storage
from openinfer.simulate.compile.compiler import compile_graph
from openinfer.simulate.compile.placement import OtherDevices
from openinfer.simulate.consumers.runs import ConsumerRuns
from openinfer.simulate.consumers.sharing import sharing
from openinfer.simulate.execute.bindings import Binding, Bindings
from openinfer.simulate.execute.details import Details
from openinfer.simulate.execute.futures import StepFuture
from openinfer.simulate.execute.input_buffers import InputBuffers, shaped
from openinfer.simulate.execute.node_run import NodeRun
from openinfer.simulate.execute.step_sizes import agreed_sizes, free_axes
from openinfer.simulate.execute.whole_program import WholeStateProgram, whole_program
from openinfer.simulate.logs import LogKind, is_wanted, log
from openinfer.simulate.program.machine import Machine
from openinfer.simulate.program.recording import Recorder
from openinfer.simulate.state.host import Host, Inputs, by_name, need_name
from openinfer.simulate.state.program_memory import ProgramMemory
from openinfer.simulate.state.snapshot import Snapshot, restore_snapshot, take_snapshot
from openinfer.simulate.values import Tensor, host_value
from openinfer.validate.step_sizes import step_sizes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.events import TraceEvent
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.simulate.compile.placement import Placements
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.execute.observers import Observers
    from openinfer.simulate.program.items import Code
    from openinfer.simulate.program.machine import Frame, Record


@public_methods
class Executor:
    """Runs a program step by step. Used by one thread at a time; made by `Simulator.make_executor`."""

    def __init__(
        self,
        resolved: ResolvedGraph,
        model: Model,
        backend: DeviceBackend,
        binder: Binder,
        placements: Placements,
        *,
        resized: Callable[[Mapping[str, int]], ResolvedGraph],
        trace: bool = False,
        timer: bool = False,
        echo: bool = True,
        limits: Mapping[str, int] | None = None,
        observers: Observers | None = None,
    ) -> None:
        self._device = binder.device
        self._graph = resolved.graph
        self._model, self._backend, self._binder = model, backend, binder
        self._recorder = Recorder(backend, timer)
        self._placements = placements
        self._tracing = trace
        self._echo, self._limits = echo, limits
        self._observers = observers
        self._free = step_sizes(resolved.graph, model)
        self._given: dict[str, tuple[int, str]] = {}
        usual = self._bound(resolved, None)
        self._bindings = Bindings(usual, resized, self._bound)
        self._ran = usual
        self._use(usual)
        self._machine: Machine | None = None
        self._results: dict[str, Tensor | None] = {}
        self._input_buffers = InputBuffers(backend)

    def _bound(self, resolved: ResolvedGraph, base: ProgramMemory | None) -> Binding:
        """Return a program bound to memory; persistent values and weights are those of ``base``, if there is one."""
        backend, binder, placements = self._backend, self._binder, self._placements
        memory = ProgramMemory(resolved, self._model, backend, base)
        with np.errstate(all="ignore"):
            shared = sharing(resolved.graph)
            blocks = None if shared is None else reached_blocks(resolved.graph, "entry")
            others = OtherDevices(placements, memory)
            consumers = ConsumerRuns(
                resolved, shared, memory, backend, binder, placements, self._recorder, trace=self._tracing
            )
        by_node = bool(placements.placed)
        if binder.runs_fitting:
            by_node |= shared is not None or self._tracing or self._recorder.timer
        whole = None
        if not by_node:
            whole = whole_program(resolved, self._model, backend, binder, memory, self._limits)
        compiled = partial(_compiled, resolved, memory, backend, binder, others, blocks)
        binding = Binding(resolved, memory, compiled, consumers, whole, Inputs(memory), Host(memory, backend))
        if whole is None or not binder.runs_fitting:
            binding.need_codes()
        return binding

    def _use(self, binding: Binding) -> None:
        self._binding = binding
        self._resolved, self._memory = binding.resolved, binding.memory
        self._consumers, self._whole, self._host = binding.consumers, binding.whole, binding.host

    def _take_sizes(self, given: Mapping[str, Any]) -> None:
        """Go over to the sizes that inserted values have; those of this step's other values have to agree.

        Raises:
            ShapeError: two values give a size different extents, or the program does not fit the sizes.
        """
        taken = agreed_sizes(self._resolved, self._free, given, self._given)
        self._go_to({size: extent for size, (extent, _) in taken.items()})
        self._given = taken

    def _go_to(self, sizes: Mapping[str, int]) -> None:
        """Use the program bound to the sizes of a step."""
        binding = self._bindings.of(sizes)
        if binding is not self._binding:
            self._settle(changing=True)
            self._keep_results(self._results)
            binding.memory.take_inserted(self._memory)
            self._use(binding)

    def _settle(self, *, changing: bool = False) -> None:
        """Let memory have what persistent variables are where the device keeps them."""
        if self._whole is not None:
            self._whole.settle(changing=changing)

    def _settle_sizes(self) -> None:
        """Begin a step with the sizes of its inputs, or the usual ones where nothing was inserted that has any."""
        if self._free and not self._given:
            self._go_to({})
        self._given = {}
        self._ran = self._binding

    def __repr__(self) -> str:
        return f"<Executor on {self._device}: {self._graph.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import fragment, graph_parts

        return fragment(f"Executor on {self._device}", self._graph.counts(), *graph_parts(self._graph, self._resolved))

    @property
    def program(self) -> ResolvedGraph:
        """The program that is run, with sizes and types known."""
        return self._resolved

    @property
    def frames(self) -> Sequence[Frame]:
        """Runs of blocks and loops that have not ended, outermost first; none between steps. They change as it runs.

        A consumer block that is stepped into comes after those of ``entry``.
        """
        entry, consumer = () if self._machine is None else self._machine.frames, self._consumers.looked_into
        return entry if consumer is None else [*entry, *consumer.machine.frames]

    @property
    def runs_whole(self) -> bool:
        """Whether the device runs steps whole at this moment, without a stop at each node.

        Tracing, `iterate`, and what the device cannot run whole take steps node by node, with the same results.
        """
        return self._whole is not None and not self._tracing

    @property
    def is_running(self) -> bool:
        """Whether a step has begun and not ended: between the first and the last item of an iteration."""
        return self._machine is not None and bool(self.frames)

    def insert(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> None:
        """Give dynamic variables their values for the next step: all of them, or none when one is refused.

        Numbers, bools and lists are converted to the declared element type if they fit; arrays must have it.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``.
            DTypeError, ShapeError: ``insert-mismatch``.
            StepStateError: a step is running.
        """
        self._insert({**by_name(values), **named})

    def insert_dynamic(self, name: str, value: Any) -> None:
        """Give one dynamic variable its value for the next step, as `insert` does."""
        self.insert({name: value})

    def step(self, /, **inputs: Any) -> TraceEvent | None:
        """Insert values, run one whole step, and return its last event; None when no node ran.

        With tracing on, one line is printed for each event when the step ends, unless the simulator was made with
        ``echo=False``.

        Raises:
            ExecutionError: the step failed; what it wrote to persistent memory stays.
            StepStateError: a step is running already.
        """
        self._insert(inputs)
        if not self._tracing:
            if self._free and not self._given:
                self._go_to({})
            return self._run_whole() or self._run_merged(None)
        told = len(self._recorder.notes)
        try:
            if is_wanted(LogKind.TRACE):
                list(self._runs(by_block=False, consumers=False))
            else:
                self._run_merged(self._recorder.record())
        finally:
            events = self._recorder.events()[told:] if self._echo else ()
            sys.stdout.write("".join(f"{event}\n" for event in events))
        return self._recorder.last() if len(self._recorder.notes) > told else None

    run_step = step

    def step_async(self, /, **inputs: Any) -> StepFuture:
        """Insert values and start one whole step; return its results to come.

        A device that can (``vulkan``) runs it while the host prepares the next one: two steps are under way at most, so
        that a third call waits for the first. Elsewhere, and where steps run node by node, the step has run when this
        returns. Every other request waits, as after `step`.

        Raises:
            ExecutionError, DTypeError, ShapeError: a value is refused, as by `insert`. Why a step fails is raised by
                `StepFuture.result`.
            StepStateError: a step is running.
        """
        self._insert(inputs)
        try:
            started = self._started_whole()
            if started is not None:
                return started
            self.step()
        except ExecutionError as error:
            return StepFuture.failed_with(error)
        return StepFuture.done_with(self.outputs())

    def wait(self) -> None:
        """Wait until the device has done all steps so far; whoever asks for a value need not.

        Raises:
            DeviceError: the device was lost, or is closed.
            StepStateError: a step is running.
        """
        self._need_idle("wait for steps")
        self._backend.synchronize()

    def iterate(self, *, by: Literal["node", "block"] = "node", consumers: bool = False) -> Iterator[NodeRun]:
        """Run one step and stop after every node, or with ``by="block"`` after the last node of every run of a block.

        Exhausting the iterator equals one `step`; closing or dropping it earlier aborts the step.

        Args:
            consumers: stop in consumer blocks too, which then run one after the other behind the ``yield`` that starts
                them; values are those that they see.

        Raises:
            ValueError: ``by`` is something else.
            ExecutionError: the step failed.
            StepStateError: a step is running already.
        """
        if by not in ("node", "block"):
            raise ValueError(f"by is 'node' or 'block', found {by!r}")
        return self._runs(by_block=by == "block", consumers=consumers)

    def trace(self) -> list[TraceEvent]:
        """Return the recorded events of all steps; none when tracing is off."""
        return list(self._recorder.events())

    def clear_trace(self) -> None:
        """Forget the recorded events."""
        self._recorder.clear()
        if self._observers is not None:
            self._observers.forget()

    def fetch(self, *names: str, dtype: DType | str | None = None) -> Any:
        """Return a value, or a tuple of several: copies; a Python scalar for rank 0.

        Args:
            names: variables; entries of prefix tables such as ``"W[3]"``; tables, or entries and ranges of them such as
                ``"K[0, 2]"`` and ``"K[0, ..3]"``.
            dtype: element type that the values must have.

        Raises:
            ExecutionError: ``unknown-variable``, or the variable holds no value.
            DTypeError: a value has another element type.
        """
        if not names:
            raise TypeError("fetch needs the name of a variable")
        self._complete(names)
        values = tuple(host_value(self._host_of(name).fetch(name, dtype)) for name in names)
        return values[0] if len(values) == 1 else values

    def fetch_raw(self, name: str) -> Tensor:
        """Return a value with its element type and shape, packed types as stored."""
        self._complete((name,))
        return self._host_of(name).fetch(name)

    def outputs(self) -> dict[str, Any]:
        """Return the values that the executed ``return a, b;`` of ``entry`` named in the last step."""
        self._need_idle("ask for outputs")
        return {name: host_value(kept or self._host.result(name)) for name, kept in self._results.items()}

    def result(self, name: str) -> Tensor:
        """Return a value as `fetch_raw` does, or one that the last step returned, temporaries included."""
        if name not in self._results:
            return self.fetch_raw(name)
        self._need_idle("ask for results")
        return self._results[name] or self._host.result(name)

    def type_of(self, access: str) -> TensorType:
        """Return the element type and shape that a variable, or what `fetch` takes, has at this moment.

        Raises:
            ExecutionError: as for `fetch`.
        """
        self._settle()
        return self._seen.type_of(access)

    def live_bytes(self) -> dict[str, int]:
        """Return the bytes of the values that are held at this moment, by kind of memory.

        Weights count once something has used them, tables by the entries that are there, temporaries from their
        ``assign`` to the end of the step.
        """
        self._settle()
        return self._memory.live_bytes()

    def input_type(self, name: str) -> TensorType:
        """Return the type of a dynamic variable.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``.
        """
        return self._binding.inputs.type_of(name)

    def input_buffer(self, name: str, shape: Sequence[int] | None = None) -> Any:
        """Return an array to fill with the value of a dynamic variable, which an insertion takes as it is.

        A device with memory of its own (``vulkan``) reads it where it lies, without a copy by the host; elsewhere it is
        an ordinary array. Its elements are undefined at first. Those of packed types are int8 or uint8, and copied.
        `insert`, `step` and `step_async` make it read-only: fill another one for the next value. It may be inserted
        again, and can be read for as long as it is there, also after `close`.

        Args:
            name: the variable.
            shape: of the value; None: as declared. Only extents of sizes that steps give may differ from it.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``.
            ShapeError: ``insert-mismatch``, the variable never has this shape.
            DeviceError: the device is closed, or has no memory for the array.
        """
        kind, variable = self.input_type(name), self._resolved.variables[name]
        return self._input_buffers.array(shaped(variable, kind, shape, free_axes(variable, self._free)))

    def written(self) -> tuple[str, ...]:
        """Return the volatile and dynamic variables that the program may write, in the order declared."""
        return tuple(self._memory.written())

    def reset(self) -> None:
        """Give persistent variables their initial values, as they were before the first step.

        Raises:
            StepStateError: a step is running.
        """
        self._need_idle("reset memory")
        self._settle(changing=True)
        self._keep_results(self._results)
        self._memory.reset()

    def snapshot(self) -> Snapshot:
        """Return a copy of all persistent variables with their growth.

        Raises:
            StepStateError: a step is running.
        """
        self._need_idle("take a snapshot")
        self._settle()
        return take_snapshot(self._graph, self._memory, self._backend)

    def restore(self, state: Snapshot | str | os.PathLike[str], *, force: bool = False) -> None:
        """Give persistent variables the values of a snapshot, or of a file that one was saved to; all of them, or none.

        Args:
            force: accept the state of another program; variables that only one of both has are passed over.

        Raises:
            ExecutionError: ``state-mismatch``, the state is of another program, or the file holds none.
            DTypeError, ShapeError, CacheLimitError: a value does not fit its declaration.
            ModelError: the file cannot be read.
            StepStateError: a step is running.
        """
        self._need_idle("restore memory")
        snapshot = state if isinstance(state, Snapshot) else Snapshot.load(state)
        self._settle(changing=True)
        self._keep_results(self._results)
        restore_snapshot(snapshot, self._graph, self._memory, self._backend, force=force)

    def close(self) -> None:
        """Release the device; the executor must not be used afterwards."""
        self._machine = None
        for binding in self._bindings:
            binding.consumers.close()
        self._placements.close()
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _insert(self, given: Mapping[str, Any]) -> None:
        self._need_idle("insert values")
        if not given:
            return
        self._keep_results(given)
        if self._free:
            self._take_sizes(given)
        self._binding.inputs.insert(given)
        self._input_buffers.hand_over(given.values())
        if self._whole is not None:
            self._whole.note_inputs()

    def _need_idle(self, what: str) -> None:
        if self.is_running:
            raise StepStateError(f"cannot {what} while a step is running: exhaust or close its iterator first")
        if self._machine is not None:
            self._end(self._machine)

    def _keep_results(self, names: Mapping[str, Any]) -> None:
        """Copy results of the last step that are about to be overwritten."""
        for name in names:
            if name in self._results and self._results[name] is None:
                self._results[name] = self._host.result(name)

    @property
    def _seen(self) -> Host:
        """Values as the statement sees them that runs next."""
        consumer = self._consumers.looked_into
        return self._host if consumer is None else consumer.host

    def _host_of(self, access: str) -> Host:
        """Return who knows a value: where sizes have changed since the last step, that of the last step."""
        variable = self._resolved.variables.get(access.partition("[")[0].strip())
        if self._ran is self._binding or (variable is not None and variable.storage is Storage.DYNAMIC):
            return self._seen
        return self._ran.host

    def _begin(self, *, merged: bool, record: Record | None, consumers: bool = False) -> Machine:
        self._need_idle("begin a step")
        self._settle_sizes()
        if self._whole is not None:
            self._whole.settle(changing=True)
            self._whole.note_nodes()
        self._results = {}
        self._memory.begin_step()
        exchange = self._consumers.exchange(merged=merged, looking=consumers)
        entry, one_by_one = self._binding.codes["entry"], not merged or exchange is not None
        self._machine = Machine(self._memory, entry, merged=not one_by_one, exchange=exchange, record=record)
        return self._machine

    def _end(self, machine: Machine) -> None:
        if self._machine is not machine:
            return
        self._consumers.drop()
        if machine.exchange is not None:
            machine.exchange.abandon()
        self._machine = None
        self._memory.end_step()
        self._results = dict.fromkeys(() if machine.frames else machine.returned)
        if self._observers is not None:
            self._observers.observe(self._recorder.events())

    def _run_whole(self) -> TraceEvent | None:
        """Run a step of a device that runs whole programs; None where it is to be run node by node."""
        if self._whole is None:
            return None
        self._need_idle("begin a step")
        self._ran = self._binding
        self._results = {}
        self._memory.begin_step(volatile=False)
        given, self._given = self._given, {}
        if not self._whole.run():
            self._given = given
            self._memory.insert_again()
            return None
        self._memory.end_step()
        self._results = dict.fromkeys(self._whole.returned)
        return self._recorder.event_of(self._binding.last)

    def _started_whole(self) -> StepFuture | None:
        """Start a step of a device that runs whole programs; None where it is to be run to its end."""
        if self._tracing:
            return None
        if self._free and not self._given:
            self._go_to({})
        whole = self._whole
        if not isinstance(whole, WholeStateProgram):
            return None
        self._need_idle("begin a step")
        self._ran = self._binding
        self._results = {}
        self._memory.begin_step(volatile=False)
        given, self._given = self._given, {}
        started = whole.start()
        if started is None:
            self._given = given
            self._memory.insert_again()
            return None
        self._memory.end_step()
        self._results = dict.fromkeys(whole.returned)
        return StepFuture(started, whole.returned)

    def _complete(self, accesses: Sequence[str]) -> None:
        """Run the latest step again where it was run whole and did not leave a value that is requested.

        From here on steps are run node by node: somebody looks at more than results.
        """
        for access in accesses:
            need_name(access, "fetch")
        if self._whole is None:
            return
        if any(self._is_persistent(access) for access in accesses):
            self._settle()
        if self.is_running or not self._whole.lacks(accesses):
            return
        self._settle()
        log(LogKind.TRACE, "a value other than a result is fetched: the program runs node by node from here on")
        self._whole = None
        self._memory.insert_again()
        self._run_merged(None)

    def _is_persistent(self, access: str) -> bool:
        variable = self._resolved.variables.get(access.partition("[")[0].strip())
        return variable is not None and variable.storage is Storage.PERSISTENT

    def _run_merged(self, record: Record | None) -> TraceEvent | None:
        machine = self._begin(merged=True, record=record)
        try:
            with np.errstate(all="ignore"):
                machine.run()
                machine.finish()
                self._backend.synchronize()
        except ExecutionError as error:
            log(LogKind.ERROR, f"step failed in block {error.block}: {error}")
            raise
        finally:
            self._end(machine)
        return self._recorder.latest(machine) if record is None else None

    @public
    def _runs(self, *, by_block: bool, consumers: bool) -> Iterator[NodeRun]:
        record = self._recorder.record(None if self._tracing else [])
        details = Details(self) if self._tracing and is_wanted(LogKind.TRACE) else None
        # A line of the log is made right after its node has run, also for those of consumers.
        machine = self._begin(merged=False, record=record, consumers=consumers or details is not None)
        try:
            while self.is_running:
                is_beside = self._consumers.looked_into is not None
                run, ended = self._run_node(machine, record)
                if details is not None:
                    log(LogKind.TRACE, details.line(run.event))
                if is_beside and not consumers:
                    continue
                if not by_block:
                    yield run
                    continue
                for block in ended:
                    if block.last is not None:
                        yield NodeRun(block.last, self)
            machine.finish()
        except ExecutionError as error:
            self._consumers.finish()
            log(LogKind.ERROR, f"step failed in block {error.block}: {error}")
            raise
        finally:
            self._end(machine)

    def _run_node(self, machine: Machine, record: Record) -> tuple[NodeRun, list[Frame]]:
        """Run a node of ``entry``, or of the consumer that is looked into; return it with the blocks that it ended."""
        if self._consumers.looked_into is not None:
            event, steps = self._consumers.advance()
            return NodeRun(event, self, steps.failure), list(steps.machine.ended)
        event = self._recorder.advance(machine, record)
        if not self._tracing:
            record.events.clear()
        return NodeRun(event, self), list(machine.ended)


def _compiled(
    resolved: ResolvedGraph,
    memory: ProgramMemory,
    backend: DeviceBackend,
    binder: Binder,
    others: OtherDevices,
    blocks: Iterable[str] | None,
) -> Mapping[str, Code]:
    with np.errstate(all="ignore"):
        return compile_graph(resolved, memory, backend, binder, others, blocks)
