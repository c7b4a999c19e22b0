"""Programs for steps of many sizes: recorded once on buffers of the largest shapes, which steps copy to and from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.memory.buffers import own
from openinfer_backend_vulkan.programs.program import DeviceProgram, Sizing
from openinfer_backend_vulkan.queue.commands import Copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.simulate.devices.backend import Buffer
    from openinfer.simulate.devices.programs import Array, Fault
    from openinfer_backend_vulkan.memory.buffers import VulkanBuffer
    from openinfer_backend_vulkan.programs.ports import Results, StartedStep
    from openinfer_backend_vulkan.queue.engine import Engine


class SizedDeviceProgram:
    """A program for steps of all sizes of its plan, as `openinfer.simulate.devices.programs.SizedProgram` says."""

    def __init__(self, plan: ExecutionPlan, allocate: Callable[[TensorType], VulkanBuffer], engine: Engine) -> None:
        """Reserve memory for inputs and results whose shapes differ.

        Args:
            allocate: returns a buffer.

        Raises:
            DeviceError: the device has no memory for them.
        """
        self._plan, self._engine = plan, engine
        ports = (*plan.inputs, *plan.outputs)
        self._rooms = {port.name: allocate(port.type) for port in ports if port.extents is not None}
        self._bound: dict[str, VulkanBuffer] = {}
        self._program: DeviceProgram | None = None

    def at(
        self, sizes: Mapping[str, int], inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> ProgramOfSizes:
        """Return the program for steps of some sizes; see `SizedProgram.at`.

        Raises:
            KernelMissingError, UnsupportedError: a step has no form on this device.
            DeviceError: the device has no memory for it.
        """
        sources, targets = ({name: own(buffer) for name, buffer in ports.items()} for ports in (inputs, outputs))
        if self._program is None:
            self._bound = {**sources, **targets, **self._rooms}
            held, kept = ({name: self._bound[name] for name in ports} for ports in (inputs, outputs))
            self._program = DeviceProgram(self._plan, held, kept, self._engine)
        bound = {name: buffer.storage for name, buffer in self._bound.items()}
        used = {bound[name]: buffer.storage for name, buffer in sources.items()}
        sizing = Sizing(
            registers={r.number: sizes[r.size] for r in self._plan.registers if r.size is not None},
            inputs={room: storage for room, storage in used.items() if storage is not room},
            results=[
                Copy(source=bound[name], target=buffer.storage, nbytes=buffer.type.nbytes)
                for name, buffer in targets.items()
                if buffer.storage is not bound[name] and buffer.type.nbytes
            ],
        )
        return ProgramOfSizes(self._program, sizing, {name: buffer.type for name, buffer in targets.items()})


class ProgramOfSizes:
    """A program for steps of some sizes; as `DeviceProgram`, whose state it shares."""

    def __init__(self, program: DeviceProgram, sizing: Sizing, types: Mapping[str, TensorType]) -> None:
        """Bind a program to what its steps do because of their sizes; ``types`` are those of results."""
        self._program, self._sizing, self._types = program, sizing, types
        self._results: Results | None = None

    def step(self) -> Fault | None:
        """Run a step; see `DeviceProgram.step`."""
        return self._program.run(self._sizing)

    def start(self) -> StartedStep | Fault:
        """Start a step; see `DeviceProgram.start`."""
        if self._results is None:
            self._results = self._program.results_of(self._types)
        return self._program.started(self._results, self._sizing)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes that results had; see `DeviceProgram.shapes`."""
        return self._program.shapes()

    def reset(self) -> None:
        """Give all variables their initial values."""
        self._program.reset()

    def get(self) -> dict[str, Array]:
        """Return a copy of all variables; see `DeviceProgram.get`."""
        return self._program.get()

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        self._program.set(values)
