"""Calls of whole programs: compiled once, without their weights, for every model that they fit."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dims import evaluated
from openinfer.errors import DeviceError
from openinfer.plan.accesses import walk
from openinfer.plan.operands import symbols
from openinfer.plan.places import ALIGNMENT
from openinfer.plan.steps import EqualStep, PlaceStep, Register
from openinfer.simulate.devices.programs import Fault
from openinfer.synth.c_host.blob import blob_of
from openinfer.synth.c_host.statuses import STATUSES
from openinfer_synth_c.instance import WORD
from openinfer_synth_c.leaving import LONG_WORK, run_until_stopped
from openinfer_synth_c.library import load_library, lock_of
from openinfer_synth_c.project import program_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.affine import Index
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanInput, PlanOutput
    from openinfer.synth.c_host.variables import Variable

    Array: TypeAlias = npt.NDArray[Any]


_CODES = {"INDEX": "out-of-range", "LIMIT": "cache-limit", "SHAPE": "shape-mismatch"}
"""Codes of errors by the names of statuses."""


def bind_plan(plan: ExecutionPlan, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], bool]:
    """Return a call that runs a step of a plan on arrays in the order of its ports; whether it was done is returned.

    Each call has an instance of the model for itself, so that threads run several at once.

    Raises:
        SynthesisError: the plan holds something that cannot be written out in C.
        DeviceError: it cannot be compiled.
    """
    call, kept = CompiledModel(plan).stepping(inputs, outputs)

    def run(_kept: object = kept) -> bool:
        return call() == 0

    return run


class PlanInstance:
    """An instance of a model that keeps state, bound to arrays in the order of the plan's ports.

    Several that are bound to one model are one program with one state.
    """

    def __init__(
        self,
        model: CompiledModel,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """Bind a model to arrays; ``sizes`` are those of its steps, where the plan takes any."""
        self._model = model
        ports = model.plan.outputs
        self._shapes = {
            port.name: np.zeros(len(port.type.shape), np.uintp) for port in ports if port.extents is not None
        }
        given = [model.room(port, array) for port, array in zip(model.plan.inputs, inputs, strict=True)]
        rooms = [model.room(port, array) for port, array in zip(ports, outputs, strict=True)]
        self._before, self._after = _moves(given, inputs), _moves(rooms, outputs)
        arrays: list[Array] = []
        for port, room in zip(ports, rooms, strict=True):
            arrays += [room, self._shapes[port.name]] if port.name in self._shapes else [room]
        self._call, self._kept = model.stepping(given, arrays, sizes or {})

    def step(self) -> Fault | None:
        """Run a step."""
        for room, array in self._before:
            np.copyto(room, array)
        status = self._call()
        if not status:
            for room, array in self._after:
                np.copyto(array, room)
            return None
        number = self._model.fault_line()
        node = number - 1 if number else None
        found = next(each for each in STATUSES if each.number == status)
        words = ", and ".join(dict.fromkeys(self._demanded(node))) if found.name == "SHAPE" else ""
        return Fault(_CODES.get(found.name, "execution"), words or found.text, node)

    def _demanded(self, node: int | None) -> Iterator[str]:
        """Yield what a statement demands, and its sizes: the first demand that was not met, and those in front of it
        that may have been it, because they read memory."""
        for step in self._model.demanding.get(node, ()):
            is_met: bool | None = None
            sizes: dict[str, int] = {}
            try:
                is_met = self._is_met(step)
                sizes = {name: self._value(value) for name, value in step.demand.sizes} if step.demand else {}
            except LookupError:
                pass
            if is_met:
                continue
            values = " and ".join(f"{name} is {value}" for name, value in sizes.items())
            if step.demand is not None:
                yield f"{step.demand.text}, {values}" if values else step.demand.text
            if is_met is False:
                return

    def _is_met(self, step: EqualStep | PlaceStep) -> bool:
        """Return whether a demand was met in the step that was last.

        Raises:
            LookupError: it reads memory, which may have changed.
        """
        if isinstance(step, EqualStep):
            return self._value(step.left) == self._value(step.right)
        value, bounds = self._value(step.value), step.range
        if value < 0 and bounds.size is not None:
            value += self._value(bounds.size)
        is_above = bounds.least is None or value >= self._value(bounds.least)
        return is_above and (bounds.most is None or value <= self._value(bounds.most))

    def _value(self, expr: Index) -> int:
        """Return the value of an integer expression in the step that was last.

        Raises:
            LookupError: it reads memory, which may have changed.
        """
        read = ((symbol.name, symbol.operand) for symbol in symbols(expr))
        registers = {name: operand.number for name, operand in read if isinstance(operand, Register)}
        return evaluated(expr, {name: self._model.register(number) for name, number in registers.items()})

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the outputs whose shape varies."""
        return {name: tuple(int(extent) for extent in shape) for name, shape in self._shapes.items()}

    def reset(self) -> None:
        """Give all variables their initial values."""
        self._model.call("model_reset")

    def get(self) -> dict[str, Array]:
        """Return a copy of all variables, in storage form."""
        found = {name: array.copy() for name, array in self._model.variables.items()}
        for number, array in enumerate(found.values()):
            self._model.call("model_get", number, array)
        return found

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        for number, (name, array) in enumerate(self._model.variables.items()):
            given = np.ascontiguousarray(values[name], array.dtype)
            self._model.call("model_set", number, given)


def _demanding(plan: ExecutionPlan) -> dict[int | None, list[EqualStep | PlaceStep]]:
    """Return the steps that demand something of sizes, by their statement; None: of a declaration."""
    demanding: dict[int | None, list[EqualStep | PlaceStep]] = {}
    for procedure in plan.procedures:
        for step in walk(procedure.steps):
            if isinstance(step, EqualStep | PlaceStep) and step.demand is not None:
                node = next((statement.node for statement in step.origin.statements), None)
                demanding.setdefault(node, []).append(step)
    return demanding


class CompiledModel:
    """A compiled model with one instance in memory.

    Attributes:
        variables: arrays that hold each persistent variable, by name.
        demanding: the steps that demand something of sizes, by their statement.

    Raises:
        SynthesisError: the plan holds something that cannot be written out in C.
        DeviceError: it cannot be compiled.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        blob = blob_of(plan, largest_embedded=0)
        self.plan = plan
        self.source = program_source(plan, blob)
        self._library = load_library(self.source.files, () if plan.arch is None else plan.arch.compiler.flags)
        self._instance = _zeros(self.source.instance.nbytes)
        self._given = [self._instance, *([] if blob is None else [_aligned(blob.data)])]
        self._given += [_zeros(memory.nbytes) for memory in self.source.instance.memories]
        status = self._library["model_init"](*(ctypes.c_void_p(array.ctypes.data) for array in self._given))
        if status:
            raise DeviceError(f"device c: the program cannot be initialised, status {status}")
        self._rooms: dict[str, Array] = {}
        self.variables = {variable.name: _held(variable, plan) for variable in self.source.instance.variables}
        self.demanding = _demanding(plan)

    def room(self, port: PlanInput | PlanOutput, array: Array) -> Array:
        """Return an array with room for the largest shape of a port, which its steps may touch: the array of a step of
        some sizes where it is as large, else one that all sizes share."""
        if port.extents is None or array.shape == port.type.shape:
            return array
        if port.name not in self._rooms:
            self._rooms[port.name] = np.zeros(port.type.shape, array.dtype)
        return self._rooms[port.name]

    def stepping(
        self, inputs: Sequence[Array], outputs: Sequence[Array], sizes: Mapping[str, int] | None = None
    ) -> tuple[Callable[[], int], object]:
        """Return a call that runs a step and returns its status, and the objects that must outlive it.

        Args:
            sizes: those of the step that the plan takes, by name.
        """
        instance = ctypes.c_void_p(self._instance.ctypes.data)
        lengths = [(sizes or {})[name] for name in self.plan.given_sizes]
        call = partial(self._library["model_step"], instance, _fields(inputs, lengths), _fields(outputs))
        kept = (*inputs, *outputs, *self._given)
        if self.source.work < LONG_WORK:
            return call, kept
        # The flag that ends a long step is one for all instances.
        lock, stop = lock_of(self._library), ctypes.c_int.in_dll(self._library, "model_stop")
        long_call = partial(run_until_stopped, call, stop)

        def locked() -> int:
            with lock:
                return long_call()

        return locked, kept

    def fault_line(self) -> int:
        """Return the number of the statement that the last step stopped at, from 1; 0 where there is none."""
        return self._library["model_fault_line"](ctypes.c_void_p(self._instance.ctypes.data))

    def register(self, number: int) -> int:
        """Return the value of a register of the plan."""
        start = self.source.instance.registers[number]
        return int(self._instance[start : start + WORD].view(np.int64)[0])

    def call(self, function: str, number: int | None = None, array: Array | None = None) -> None:
        """Call a function of the instance, of a variable by its number and with its elements.

        Raises:
            DeviceError: it returns another status than 0.
        """
        arguments: list[object] = [ctypes.c_void_p(self._instance.ctypes.data)]
        if number is not None and array is not None:
            pointer, nbytes = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
            arguments += [ctypes.c_int(number), pointer, nbytes]
        status = self._library[function](*arguments)
        if status:
            raise DeviceError(f"device c: {function} of the program returned status {status}")


def _held(variable: Variable, plan: ExecutionPlan) -> Array:
    """Return an array that holds a variable: of its shape, packed types as their bytes."""
    state = next((state for state in plan.states if state.name == variable.name), None)
    if state is None:
        return np.zeros((), np.int64)
    if state.type.dtype.is_packed:
        return np.zeros(variable.nbytes, np.uint8)
    return np.zeros(state.type.shape, storage_dtype(state.type.dtype))


def _moves(rooms: Sequence[Array], arrays: Sequence[Array]) -> list[tuple[Array, Array]]:
    """Return the elements at the front of rooms, with the arrays of ports that are smaller."""
    pairs = zip(rooms, arrays, strict=True)
    return [(room.reshape(-1)[: array.size].reshape(array.shape), array) for room, array in pairs if room is not array]


def _aligned(data: bytes) -> Array:
    """Return a copy of bytes at an address that a model takes."""
    room = _zeros(len(data))
    room[:] = np.frombuffer(data, np.uint8)
    return room


def _zeros(nbytes: int) -> Array:
    """Return bytes at an address that a model takes; the system gives them memory when they are first touched."""
    room = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + nbytes]


def _fields(arrays: Sequence[Array], sizes: Sequence[int] = ()) -> ctypes.Array[ctypes.c_size_t]:
    """Return a structure of pointers, and sizes after them, that a program expects; an empty one gets a placeholder."""
    count = len(arrays) + len(sizes)
    return (ctypes.c_size_t * max(count, 1))(*(array.ctypes.data for array in arrays), *sizes)
