"""The state of a running step of a program: integers of the host, and the commands recorded for the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.packing import unpack
from openinfer.plan.values import InputMemory, WeightMemory
from openinfer_backend_vulkan.glsl.counts import register_of
from openinfer_backend_vulkan.glsl.elements import code_of
from openinfer_backend_vulkan.memory.blocks import StorageBuffer
from openinfer_backend_vulkan.programs.counts import deferrable
from openinfer_backend_vulkan.programs.integers import StepFaultError
from openinfer_backend_vulkan.programs.parameter_block import ParameterBlock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.affine import Index
    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.scalars import Scalar
    from openinfer_backend_vulkan.programs.memory import ProgramMemory
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.faults import FaultWords
    from openinfer_backend_vulkan.queue.hazards import Command, Place

MOST_COMMANDS = 1024
"""Commands of a submission."""


class Machine:
    """The state of a step.

    Attributes:
        registers: by number.
        loops: the indices of loops, by number.
        scalars: values that the host keeps (`openinfer_backend_vulkan.programs.scalars`), by number.
        unsettled: values that the host reads and that the device may still be writing.
        deferrable: registers that kernels may count (`openinfer_backend_vulkan.programs.counts`).
        pending: those of them that the host does not know, as indices over counts.
        counts: memory of the counts, a word for each register.
    """

    def __init__(self, engine: Engine, plan: ExecutionPlan, memory: ProgramMemory) -> None:
        self.engine = engine
        self.block = ParameterBlock(engine)
        self.registers = [register.initial for register in plan.registers]
        self._starts = [(r.number, r.initial) for r in plan.registers if not r.is_kept]
        self.loops: dict[int, int] = {}
        self.scalars = dict.fromkeys(memory.of_host, 0)
        self.unsettled: set[int] = set()
        self.deferrable = deferrable(plan, memory.polled)
        self.pending: dict[int, Index] = {}
        self.counts = engine.memory.mapped(4 * max(len(plan.registers), 1))
        self._plan, self._memory = plan, memory
        self._commands: list[Command] = []
        self._watched: dict[FaultWords, int | None] = {}
        self._known: dict[int, int] = {}

    def start(self, sizes: Mapping[int, int]) -> None:
        """Begin a step: registers have their initial values, but those of sizes that are given for it."""
        self.pending.clear()
        for number, initial in self._starts:
            self.registers[number] = sizes.get(number, initial)

    def add(self, commands: Sequence[Command]) -> None:
        """Have commands run after those before them."""
        self._commands += commands

    def reserve(self, nbytes: int = 0) -> None:
        """Make sure that what follows goes to one submission: some commands, and so many bytes of the parameter block.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        if len(self._commands) >= MOST_COMMANDS or not self.block.has_room(nbytes):
            self.flush()

    def watch(self, words: FaultWords, node: int | None) -> None:
        """Have faults of a statement reported when the step has ended."""
        self._watched.setdefault(words, node)

    def flush(self) -> None:
        """Submit the commands so far; when this is interrupted, they are submitted or still there.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        if not self._commands:
            return
        queue = self.engine.queue
        before = queue.submissions
        try:
            queue.run([*self.block.copies(), *self._commands])
        finally:
            if queue.submissions > before:
                self.block.submitted(queue.submissions)
                self._commands = []

    def resume(self) -> None:
        """Submit what a step has left that was interrupted, and forget what its kernels refused.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self.flush()
        self.found_fault()

    def found_fault(self) -> tuple[str, int | None] | None:
        """Wait for all work and return the fault of a kernel, with its statement; None: no kernel can have a fault, do
        not wait.

        Raises:
            DeviceError: the device is lost.
        """
        if not self._watched:
            return None
        self.engine.queue.synchronize()
        watched, self._watched = self._watched, {}
        taken = [(words.taken(), node) for words, node in watched.items()]
        return next(((message, node) for message, node in taken if message is not None), None)

    def need_no_fault(self) -> None:
        """Wait for kernels that may refuse an element, before something changes that outlives the step.

        Raises:
            StepFaultError: ``out-of-range``, one refused an element.
            DeviceError: the device is closed, or lost.
        """
        if not self._watched:
            return
        self.flush()
        fault = self.found_fault()
        if fault is not None:
            error = StepFaultError("out-of-range", fault[0])
            error.node = fault[1]
            raise error

    def stored(self, dtype: DType, number: Scalar) -> Place:
        """Put an element into the parameter block; return where it is."""
        count = max(dtype.bits // 32, 1)
        first, code = self.block.take(count), code_of(dtype, number)
        for word in range(count):
            self.block.bits[first + word] = code >> 32 * word & 0xFFFFFFFF
        return self.block.part(first, count)

    def register(self, number: int) -> int:
        """Return what a register holds; where it is pending, the device finishes first.

        Raises:
            DeviceError: the device is lost.
        """
        if number in self.pending:
            self._settle()
        return self.registers[number]

    def set_register(self, number: int, index: Index) -> None:
        """Give a register a value, which may depend on counts."""
        constant = index.constant
        if constant is None:
            self.pending[number] = index
        else:
            self.pending.pop(number, None)
            self.registers[number] = constant

    def release_count(self, number: int, count: Index) -> None:
        """Make sure that no other register is pending for the count of a register, which a loop takes again.

        Raises:
            DeviceError: the device is lost.
        """
        used = count.variables()
        if any(used & index.variables() for register, index in self.pending.items() if register != number):
            self._settle()

    def _settle(self) -> None:
        """Wait for the counts that registers are pending for."""
        self._finish()
        words = self.counts.view(np.dtype(np.int32)).tolist()
        for number, index in self.pending.items():
            self.registers[number] = index.evaluate({var.name: words[register_of(var)] for var in index.variables()})
        self.pending.clear()

    def _finish(self) -> None:
        """Wait for all work: what kernels write for the host is there then."""
        self.flush()
        self.engine.queue.synchronize()
        self.unsettled.clear()

    def scalar(self, value: int) -> int:
        """Return the one integer of a value; the device finishes first if it may still be writing it.

        Raises:
            DeviceError: the device is lost.
        """
        number = self.scalars.get(value)
        if number is None:
            number = self._known.get(value)
        return int(self._read(value)) if number is None else number

    def truth(self, value: int) -> bool:
        """Return whether the one element of a value is not zero; as `scalar`."""
        number = self.scalars.get(value)
        return bool(self._read(value) if number is None else number)

    def _read(self, value: int) -> Any:
        """Return the one element of a value that the host does not keep."""
        planned = self._plan.values[value]
        if isinstance(planned.memory, WeightMemory):
            element = _element(np.frombuffer(self._plan.weights[planned.memory.number].data, np.uint8), planned.type)
            if planned.type.dtype.is_integer:
                self._known[value] = int(element)
            return element
        if isinstance(planned.memory, InputMemory):
            return self.element(self._memory.given[planned.memory.number], planned.type)
        place = self._memory.place(value)
        storage = place if isinstance(place, StorageBuffer) else place.storage
        if value in self.unsettled:
            self._finish()
        return _element(storage.view(np.dtype(np.uint8)), planned.type)

    def element(self, storage: StorageBuffer, kind: TensorType) -> Any:
        """Return the element of an input, when what writes it is done.

        Raises:
            DeviceError: the device is lost.
        """
        if self.engine.queue.is_writing(storage):
            self.engine.queue.synchronize()
        return _element(storage.view(np.dtype(np.uint8)), kind)


def _element(held: npt.NDArray[np.uint8], kind: TensorType) -> Any:
    """Return the first element of a tensor in storage form."""
    if kind.dtype.is_packed:
        return unpack(held[:1], kind.dtype, (1,))[0]
    return held[: kind.dtype.bits // 8].view(storage_dtype(kind.dtype))[0]
