"""Kernels with sizes that other kernels count: their numbers and workgroups are computed on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.errors import UnsupportedError
from openinfer_backend_vulkan.glsl.counts import (
    COUNTS,
    NUMBERS,
    counting,
    is_polynomial,
    most_threads,
    numbering,
    registers_of,
)
from openinfer_backend_vulkan.glsl.loop_programs import printed
from openinfer_backend_vulkan.glsl.shaders import MOST_THREADS
from openinfer_backend_vulkan.programs.integers import index_reader
from openinfer_backend_vulkan.programs.kernels import VaryingKernel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.plan.steps import Argument, PlaceStep
    from openinfer_backend_vulkan.glsl.shaders import ShaderTarget
    from openinfer_backend_vulkan.memory.blocks import Part
    from openinfer_backend_vulkan.programs.machine import Machine
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Place

MOST_FORMS = 16
"""Forms of a size that a statement has kernels for: numbers of the host in it make others. Then the host waits.

A number that changes in every step, such as a position in a cache, makes a form in every step: without a bound,
pipelines would be added as long as the program runs.
"""


class CountedKernels:
    """The kernels of a statement whose arguments may depend on counts.

    Args:
        target: for kernels whose numbers lie in memory.
    """

    def __init__(
        self,
        kernels: Sequence[VaryingKernel],
        arguments: Mapping[str, Argument],
        machine: Machine,
        target: ShaderTarget,
    ) -> None:
        self._kernels, self._machine, self._target = kernels, machine, target
        counted = {name: arg for name, arg in arguments.items() if registers_of(arg.value) & machine.deferrable}
        is_known = all(is_polynomial(argument.value) for argument in counted.values())
        self._readers = {name: (arg, index_reader(arg.value, machine)) for name, arg in counted.items() if is_known}
        self._numbering: dict[str, list[VaryingKernel] | None] = {}

    def sizes(self) -> dict[str, Index]:
        """Return the arguments that the host does not know, by name; none where it needs to know one."""
        sizes: dict[str, Index] = {}
        if not self._machine.pending:
            return sizes
        for name, (argument, read) in self._readers.items():
            index = read()
            if index.constant is not None:
                continue
            low, high = index.interval.low, index.interval.high
            if low is None or high is None or low < argument.low or high > argument.high:
                return {}
            sizes[name] = index
        return sizes

    def numbering(self, sizes: Mapping[str, Index], values: Mapping[str, int]) -> list[VaryingKernel] | None:
        """Return what computes the numbers of each kernel; None: the host has to.

        Args:
            values: of the other arguments.
        """
        if not all(self._fits(kernel, sizes, values) for kernel in self._kernels):
            return None
        key = str({name: str(index) for name, index in sizes.items()})
        if key not in self._numbering and len(self._numbering) < MOST_FORMS:
            self._numbering[key] = self._made(sizes)
        return self._numbering.get(key)

    def _fits(self, kernel: VaryingKernel, sizes: Mapping[str, Index], values: Mapping[str, int]) -> bool:
        """Whether a kernel counts its invocations in 32 bits, however many there are."""
        most = most_threads(kernel.text, sizes, values)
        return most is not None and most < MOST_THREADS - kernel.text.group_size

    def _made(self, sizes: Mapping[str, Index]) -> list[VaryingKernel] | None:
        engine, registers = self._machine.engine, len(self._machine.registers)
        across = engine.device.physical.max_groups[0]
        try:
            kernels = [numbering(kernel.text, sizes, registers, across) for kernel in self._kernels]
            return [VaryingKernel(printed(kernel, self._target), kernel.name, engine) for kernel in kernels]
        except UnsupportedError:  # A number may need more than 32 bits.
            return None

    def write_numbers(self, kernel: VaryingKernel, part: Part, values: Mapping[str, int]) -> None:
        """Queue what `numbering` has returned for a kernel, before it."""
        kernel.run(self._machine, {COUNTS: self._machine.counts, NUMBERS: part}, values)


class Counter:
    """Has a register take a count of a kernel."""

    def __init__(self, step: PlaceStep, place: Place, machine: Machine, target: ShaderTarget, engine: Engine) -> None:
        kernel = counting(step, len(machine.registers))
        self._kernel = VaryingKernel(printed(kernel, target), kernel.name, engine)
        self._place, self._machine = place, machine
        self._nbytes = machine.block.room_for(self._kernel.words)

    def run(self) -> None:
        """Queue it."""
        self._machine.reserve(self._nbytes)
        self._kernel.run(self._machine, {"x": self._place, COUNTS: self._machine.counts}, {})
