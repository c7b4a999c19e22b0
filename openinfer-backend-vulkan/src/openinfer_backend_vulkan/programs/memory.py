"""Where the values of a plan lie on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import DeviceError
from openinfer.plan.places import ALIGNMENT
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, StateMemory, ViewMemory, WeightMemory
from openinfer_backend_vulkan.memory.blocks import Part, StorageBuffer
from openinfer_backend_vulkan.programs.ports import Inputs
from openinfer_backend_vulkan.programs.scalars import kept_by_host, read_by_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer_backend_vulkan.memory.buffers import VulkanBuffer
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Place


class ProgramMemory:
    """Memory of a program: the arena, weights and states, but not the buffers of its inputs and outputs.

    Attributes:
        of_host: values that the host keeps; they lie nowhere.
        polled: values that the host reads, and kernels write: where the host sees them.
        given: buffers of the inputs, which the host writes.
        inputs: what a step reads of them.
        outputs: buffers of the outputs.
        states: buffers of the values that are kept between steps, by number of the value.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        inputs: Mapping[str, VulkanBuffer],
        outputs: Mapping[str, VulkanBuffer],
        engine: Engine,
    ) -> None:
        self.of_host = kept_by_host(plan)
        self.polled = read_by_host(plan) - self.of_host
        self._plan, self._engine = plan, engine
        self.given = [inputs[port.name].storage for port in plan.inputs]
        self.inputs = Inputs(self.given, engine)
        self.outputs = [outputs[port.name].storage for port in plan.outputs]
        self._weights: dict[int, StorageBuffer] = {}
        self._places: dict[int, Place] = {}
        self._arena = _arena(plan, engine)
        self.states = {
            state.value: self._mapped(state.value) if state.value in self.polled else engine.room(state.type.nbytes)
            for state in plan.states
            if state.value not in self.of_host
        }

    def place(self, value: int) -> Place:
        """Return where a value lies; of a view of a state, the whole state."""
        if value not in self._places:
            self._places[value] = self._placed(value)
        return self._places[value]

    def weight(self, number: int) -> StorageBuffer:
        """Return the buffer of a weight.

        Raises:
            DeviceError: ``too-large``: there is no memory for it.
        """
        if number not in self._weights:
            data = self._plan.weights[number].data
            held = np.frombuffer(data, np.uint8) if data.nbytes else np.empty(0, np.uint8)
            self._weights[number] = self._engine.uploaded(held)
        return self._weights[number]

    def _placed(self, value: int) -> Place:
        planned = self._plan.values[value]
        match planned.memory:
            case InputMemory(number):
                return self.inputs.storages[number]
            case OutputMemory(number):
                return self.outputs[number]
            case WeightMemory(number):
                return self.weight(number)
            case StateMemory(number):
                # What is read of a state that is not written meanwhile lies in it too.
                return self.states[self._plan.states[number].value]
            case ViewMemory(state):
                return self.states[state]
            case ArenaMemory(offset) if value in self.polled:
                return self._mapped(value)
            case ArenaMemory(offset):
                nbytes = max(-(-planned.type.nbytes // 4) * 4, 4)
                most = self._engine.device.physical.max_storage_bytes
                if self._arena is None or offset + nbytes > self._arena.nbytes or nbytes > most:
                    return self._engine.memory.tensor(nbytes)
                return Part(self._arena, offset, nbytes)
            case _:
                raise TypeError(f"{planned.name} has no memory")

    def _mapped(self, value: int) -> StorageBuffer:
        return self._engine.memory.mapped(self._plan.values[value].type.nbytes)


def _arena(plan: ExecutionPlan, engine: Engine) -> StorageBuffer | None:
    """Return one buffer for all intermediate results; None if each needs its own."""
    if not plan.arena_nbytes or engine.device.physical.offset_alignment > ALIGNMENT:
        return None
    try:
        return engine.memory.arena(plan.arena_nbytes)
    except DeviceError as error:
        if error.code != "too-large":
            raise
        return None
