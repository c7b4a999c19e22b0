"""An executor: one program with its own memory, stepped by the host (``specification: runtime.host``)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, Self

from openinfer.boundary import public, public_methods
from openinfer.errors import ExecutionError
from openinfer.simulate.devices.programs import SizedBackend
from openinfer.simulate.execute.bindings import Bindings
from openinfer.simulate.execute.details import Details
from openinfer.simulate.execute.futures import StepFuture
from openinfer.simulate.execute.input_buffers import InputBuffers, shaped
from openinfer.simulate.execute.native_buffers import NativeBuffers
from openinfer.simulate.execute.node_run import NodeRun
from openinfer.simulate.execute.program_binder import ProgramBinder
from openinfer.simulate.execute.sized_programs import SizedPrograms
from openinfer.simulate.execute.step_sizes import agreed_sizes, free_axes, typed_for
from openinfer.simulate.execute.steps import Steps
from openinfer.simulate.logs import LogKind, is_wanted
from openinfer.simulate.program.recording import Recorder
from openinfer.simulate.state.host import by_name
from openinfer.simulate.state.partial_state import partial_snapshot
from openinfer.simulate.state.program_memory import ProgramMemory
from openinfer.simulate.state.snapshot import Snapshot, restore_snapshot, take_snapshot
from openinfer.simulate.values import Tensor, host_value
from openinfer.validate.step_sizes import step_sizes

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.diagnostics import Diagnostic
    from openinfer.dtypes import DType
    from openinfer.events import TraceEvent
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.simulate.compile.placement import Placements
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.binding import Binder
    from openinfer.simulate.execute.observers import Observers
    from openinfer.simulate.program.machine import Frame


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
        self._backend, self._placements = backend, placements
        self._recorder = Recorder(backend, timer)
        self._tracing, self._echo = trace, echo
        self._observers = observers
        sized = None
        if limits is not None and isinstance(backend, SizedBackend):
            sized = SizedPrograms(resolved, model, backend, binder, limits, resized)
        program = ProgramBinder(
            model=model,
            backend=backend,
            binder=binder,
            placements=placements,
            recorder=self._recorder,
            tracing=trace,
            limits=limits,
            sized=sized,
        )
        bindings = Bindings(program.bind(resolved), resized, program.bind, {} if sized is None else sized.most)
        self._free = step_sizes(resolved.graph, model)
        self._input_buffers, self._native_buffers = InputBuffers(backend), NativeBuffers(backend)
        self._steps = Steps(bindings, self._free, self._recorder, observers, tracing=trace)

    def __repr__(self) -> str:
        return f"<Executor on {self._device}: {self.program.graph.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import fragment, graph_parts

        graph, program = self.program.graph, self.program
        return fragment(f"Executor on {self._device}", graph.counts(), *graph_parts(graph, program))

    @property
    def program(self) -> ResolvedGraph:
        """The program that is run, with sizes and types known."""
        return self._steps.binding.resolved

    @property
    def frames(self) -> Sequence[Frame]:
        """Runs of blocks and loops that have not ended, outermost first; none between steps. They change as it runs.

        A consumer block that is stepped into comes after those of ``entry``.
        """
        return self._steps.frames

    @property
    def runs_whole(self) -> bool:
        """Whether the device runs steps whole at this moment, without a stop at each node.

        Tracing, `iterate`, and what the device cannot run whole take steps node by node, with the same results.
        """
        return self._steps.runs_whole

    @property
    def node_by_node(self) -> tuple[Diagnostic, ...]:
        """Why steps run node by node, which is slower, on a device that runs programs whole: notes with what to do.

        Empty where steps run whole, where nodes are traced, and on devices that run every program node by node.
        """
        return self._steps.binding.reasons

    @property
    def is_running(self) -> bool:
        """Whether a step has begun and not ended: between the first and the last item of an iteration."""
        return self._steps.is_running

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
            return self._steps.run()
        before = len(self._recorder.notes)
        try:
            if is_wanted(LogKind.TRACE):
                list(self._runs(by_block=False, consumers=False))
            else:
                self._steps.run_by_node(self._recorder.record())
        finally:
            events = self._recorder.events()[before:] if self._echo else ()
            sys.stdout.write("".join(f"{event}\n" for event in events))
        return self._recorder.last() if len(self._recorder.notes) > before else None

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
            started = self._steps.start()
            if started is not None:
                return StepFuture(*started)
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
        self._steps.need_idle("wait for steps")
        self._backend.synchronize()

    def iterate(self, *, by: Literal["node", "block"] = "node", consumers: bool = False) -> Iterator[NodeRun]:
        """Run one step and stop after every node, or with ``by="block"`` after the last node of every run of a block.

        Exhausting the iterator equals one `step`; closing or dropping it earlier aborts the step.

        Args:
            consumers: stop in consumer blocks too, which then run one by one after the ``yield`` that starts
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
        self._steps.complete(names)
        values = tuple(host_value(self._steps.host_of(name).fetch(name, dtype)) for name in names)
        return values[0] if len(values) == 1 else values

    def fetch_raw(self, name: str) -> Tensor:
        """Return a value with its element type and shape, packed types as stored."""
        self._steps.complete((name,))
        return self._steps.host_of(name).fetch(name)

    def outputs(self) -> dict[str, Any]:
        """Return the values that the executed ``return a, b;`` of ``entry`` named in the last step."""
        self._steps.need_idle("ask for outputs")
        results, host = self._steps.results, self._steps.binding.host
        return {name: host_value(results.value(name, host)) for name in results}

    def result(self, name: str) -> Tensor:
        """Return a value as `fetch_raw` does, or one that the last step returned, temporaries included."""
        if name not in self._steps.results:
            return self.fetch_raw(name)
        self._steps.need_idle("ask for results")
        return self._steps.results.value(name, self._steps.binding.host)

    def type_of(self, access: str) -> TensorType:
        """Return the element type and shape that a variable, or what `fetch` takes, has at this moment.

        Raises:
            ExecutionError: as for `fetch`.
        """
        self._steps.need_value(access)
        self._steps.settle()
        return self._steps.host_of(access).type_of(access)

    def live_bytes(self) -> dict[str, int]:
        """Return the bytes of the values that are stored at this moment, by kind of memory.

        Weights count once something has used them, tables by the entries that are there, temporaries from their
        ``assign`` to the end of the step.
        """
        self._steps.settle()
        return self._memory.live_bytes()

    def input_type(self, name: str, values: Mapping[str, Any] | None = None) -> TensorType:
        """Return the type of a dynamic variable.

        Args:
            values: arrays and lists of a step, by variable, which give it its sizes; None: as declared.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``.
            ShapeError: ``insert-mismatch``, two extents give one size different values.
        """
        kind = self._steps.binding.inputs.type_of(name)
        if not values or not self._free:
            return kind
        return typed_for(self.program, name, agreed_sizes(self.program, self._free, values, {}))

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
            DeviceError: the device is closed, or has no memory for the array (``too-large``).
        """
        kind, variable = self.input_type(name), self.program.variables[name]
        return self._input_buffers.array(name, shaped(variable, kind, shape, free_axes(variable, self._free)))

    def native_device(self) -> Any:
        """Return the handles of the device for other code of its API.

        Of ``vulkan`` they are an `openinfer_backend_vulkan.interop.SharedDevice`.

        They are valid until `close`.

        Raises:
            UnsupportedError: the device has none, such as ``cpu``.
            DeviceError: the device is closed.
        """
        return self._native_buffers.device()

    def native_buffer(self, name: str) -> Any:
        """Return the handle of the buffer of a dynamic or volatile variable, valid until `close`.

        All steps so far are submitted, so that work which other code submits afterwards finds their results, until the
        next step begins. Inserted as the value of its own dynamic variable, ``step(x=executor.native_buffer("x"))``, it
        has the step read what work submitted before the step leaves in the buffer.

        Raises:
            ExecutionError: ``unknown-variable``.
            UnsupportedError: the device has no handles, or the variable is neither dynamic nor volatile, or its shape
                may differ from step to step.
            DeviceError: the device is closed, or was lost.
            StepStateError: a step is running.
        """
        self._steps.need_idle("hand out a buffer")
        self._steps.complete((name,))
        if name not in self.program.variables:
            self.type_of(name)  # raises the error of an unknown variable
        return self._native_buffers.buffer(name, self._memory, self._free)

    def written(self) -> tuple[str, ...]:
        """Return the volatile and dynamic variables that the program may write, in the order declared."""
        return tuple(self._memory.written())

    def reset(self) -> None:
        """Give persistent variables their initial values, as they were before the first step.

        Raises:
            StepStateError: a step is running.
        """
        self._steps.before_change("reset memory")
        self._memory.reset()

    def snapshot(self) -> Snapshot:
        """Return a copy of all persistent variables with their growth.

        Raises:
            StepStateError: a step is running.
        """
        self._steps.need_idle("take a snapshot")
        self._steps.settle()
        return take_snapshot(self.program.graph, self._memory, self._backend)

    def restore(self, state: Snapshot | str | os.PathLike[str] | Mapping[str, Any], *, force: bool = False) -> None:
        """Give persistent variables the values of a snapshot, or of a file that one was saved to; all of them, or none.

        A mapping gives the variables that it names their values, and the others keep theirs: ``{"hidden": array}``
        before the first step, or between steps. A plain variable takes what `insert` takes, a table (``@table``) its
        entries in one array with its sizes in front, a growing matrix an array of the shape that it is to have.

        Args:
            force: accept the state of another program; variables that only one of both has are passed over.

        Raises:
            ExecutionError: ``state-mismatch``, the state is of another program, the file holds none or is damaged, or
                a variable is not persistent; ``unknown-variable``.
            DTypeError, ShapeError, CacheLimitError: a value does not fit its declaration.
            ModelError: the file cannot be read, or a tensor in it is damaged.
            StepStateError: a step is running.
        """
        self._steps.need_idle("restore memory")
        graph, memory = self.program.graph, self._memory
        if isinstance(state, Mapping):
            snapshot, force = partial_snapshot(by_name(state), graph, memory), True
        else:
            snapshot = state if isinstance(state, Snapshot) else Snapshot.load(state)
        self._steps.before_change("restore memory")
        restore_snapshot(snapshot, graph, memory, self._backend, force=force)

    def close(self) -> None:
        """Release the device; the executor must not be used afterwards."""
        self._steps.close()
        self._placements.close()
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _insert(self, values: Mapping[str, Any]) -> None:
        native, copied = self._native_buffers.split(values, self._memory)
        self._steps.insert(copied, native)
        self._input_buffers.hand_over(copied.values())

    @property
    def _memory(self) -> ProgramMemory:
        return self._steps.binding.memory

    @public
    def _runs(self, *, by_block: bool, consumers: bool) -> Iterator[NodeRun]:
        # A line of the log is made right after its node has run, also for those of consumers.
        watch = Details(self).log if self._tracing and is_wanted(LogKind.TRACE) else None
        with closing(self._steps.nodes(by_block=by_block, consumers=consumers, watch=watch)) as nodes:
            for event, failure in nodes:
                yield NodeRun(event, self, failure)
