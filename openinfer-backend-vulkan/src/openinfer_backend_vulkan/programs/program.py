"""Whole programs on the device: the host walks a plan, and the device runs a step as few recorded submissions.

Integers that no kernel computes, such as positions and loop bounds, stay on the host. What differs from step to step
goes through the parameter block, so that commands are recorded once. The host waits for the device where a kernel
computes what decides how to go on, and at the end of a step in which a kernel may find something wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import KernelMissingError
from openinfer.expr.tree import ExprError
from openinfer.plan.steps import Register
from openinfer.simulate.devices.programs import Fault
from openinfer.simulate.values import Tensor
from openinfer_backend_vulkan.glsl import contents
from openinfer_backend_vulkan.programs.integers import StepFaultError
from openinfer_backend_vulkan.programs.machine import Machine
from openinfer_backend_vulkan.programs.memory import ProgramMemory
from openinfer_backend_vulkan.programs.ports import Results, StartedStep
from openinfer_backend_vulkan.programs.steps import Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer
    from openinfer_backend_vulkan.memory.buffers import VulkanBuffer
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Command

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Sizing:
    """What a step does because of its sizes.

    Attributes:
        registers: the sizes, by the number of their register.
        inputs: the buffers of inputs whose shapes differ from step to step, by those of the program.
        results: copies of what the program leaves in buffers of the largest shapes.
    """

    registers: Mapping[int, int]
    inputs: Mapping[StorageBuffer, StorageBuffer]
    results: Sequence[Command]


_ONE_SIZE = Sizing({}, {}, ())


class DeviceProgram:
    """A program with its state, as `openinfer.simulate.devices.programs.StateProgram` says."""

    def __init__(
        self,
        plan: ExecutionPlan,
        inputs: Mapping[str, VulkanBuffer],
        outputs: Mapping[str, VulkanBuffer],
        engine: Engine,
    ) -> None:
        """Bind a plan to the buffers of its inputs and outputs.

        Raises:
            KernelMissingError, UnsupportedError: a step has no form on this device.
            DeviceError: the device has no memory for it.
        """
        self._plan, self._engine = plan, engine
        self._memory = ProgramMemory(plan, inputs, outputs, engine)
        self._machine = Machine(engine, plan, self._memory)
        steps = Steps(plan, self._memory, self._machine, engine)
        try:
            self._reset = steps.block(plan.reset)
            self._entry = steps.procedures(plan.procedures)[plan.procedures[-1].name]
        except ExprError as error:
            message = f"{engine.device.physical.name} cannot compute a step of the program: {error}"
            raise KernelMissingError(message) from error
        self._kept = [register for register in plan.registers if register.is_kept]
        self._written = [
            (port.name, port.value, storage)
            for port, storage in zip(plan.outputs, self._memory.outputs, strict=True)
            if port.value in self._memory.of_host
        ]
        self._results: Results | None = None
        self.reset()

    def step(self) -> Fault | None:
        """Run a step; where no kernel can find anything wrong, the device may still be working when this returns.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        return self.run()

    def start(self) -> StartedStep | Fault:
        """Start a step, whose results are kept; return why it failed where it did.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        if self._results is None:
            self._results = self.results_of({port.name: port.type for port in self._plan.outputs})
        return self.started(self._results)

    def results_of(self, types: Mapping[str, TensorType]) -> Results:
        """Return memory for copies of what outputs hold, whose types in the step are given."""
        of_host = {name for name, _, _ in self._written}
        ports = zip(self._plan.outputs, self._memory.outputs, strict=True)
        own = [(port.name, types[port.name], storage) for port, storage in ports if port.name not in of_host]
        return Results(own, self._engine)

    def started(self, results: Results, sizing: Sizing = _ONE_SIZE) -> StartedStep | Fault:
        """Start a step whose results are kept in ``results``; as `start`."""
        slot = results.free_slot()
        fault = self.run(sizing, results.copies(slot))
        if fault is not None:
            return fault
        kept = {
            name: Tensor(self._plan.values[value].type.dtype, (), self._kept_by_host(value))
            for name, value, _ in self._written
        }
        return StartedStep(self._engine.queue.submissions, slot, results, self._engine, kept)

    def _entered(self, sizing: Sizing) -> Fault | None:
        """Carry out a step up to its end, or to a statement that fails on the host."""
        try:
            self._memory.inputs.take(self._machine.add, sizing.inputs)
            self._entry()
        except StepFaultError as error:
            return Fault(error.code, str(error), error.node)
        return None

    def run(self, sizing: Sizing = _ONE_SIZE, copies: Sequence[Command] = ()) -> Fault | None:
        """Run a step with ``copies`` at its end; as `step`."""
        self._engine.device.need_open()
        machine = self._machine
        self._resume()
        machine.start(sizing.registers)
        try:
            fault = self._entered(sizing)
            machine.add([*sizing.results, *copies])
        finally:
            # What the host has computed is kept, so what the device was to do up to here is done too.
            self._submit()
        self._give_outputs()
        machine_fault = machine.found_fault()
        return fault if machine_fault is None else Fault("out-of-range", *machine_fault)

    def _submit(self) -> None:
        self._machine.flush()
        self._memory.inputs.submitted()

    def _resume(self) -> None:
        """Go on after a step that may have been interrupted."""
        self._machine.resume()
        self._memory.inputs.submitted()

    def _give_outputs(self) -> None:
        for _, value, storage in self._written:
            if self._engine.queue.is_using(storage):
                self._engine.queue.synchronize()
            self._engine.store(storage, contents.bytes_of(self._kept_by_host(value)))

    def _kept_by_host(self, value: int) -> Array:
        stored = storage_dtype(self._plan.values[value].type.dtype)
        return np.array(self._machine.scalars[value], stored)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes that results had in the latest step, of those whose shape varies."""
        register = self._machine.register
        return {
            port.name: tuple(register(e.number) if isinstance(e, Register) else e for e in port.extents)
            for port in self._plan.outputs
            if port.extents is not None
        }

    def reset(self) -> None:
        """Give all variables their initial values."""
        self._resume()
        for register in self._kept:
            self._machine.registers[register.number] = register.initial
        self._reset()
        self._machine.flush()

    def get(self) -> dict[str, Array]:
        """Return a copy of all variables, in storage form."""
        self._resume()
        arrays: dict[str, Array] = {}
        for state in self._plan.states:
            if state.value in self._memory.of_host:
                arrays[state.name] = self._kept_by_host(state.value)
            else:
                arrays[state.name] = self._engine.fetched(self._memory.states[state.value], state.type)
        for register in self._kept:
            arrays[register.name] = np.array(self._machine.registers[register.number], np.int64)
        return arrays

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        self._resume()
        self._engine.queue.synchronize()
        for state in self._plan.states:
            if state.value in self._memory.of_host:
                self._machine.scalars[state.value] = int(values[state.name])
            else:
                self._engine.store(self._memory.states[state.value], contents.bytes_of(values[state.name]))
        for register in self._kept:
            self._machine.registers[register.number] = int(values[register.name])
