"""Kernels of a program: what they are bound to, and the commands that run them with the numbers of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.errors import FeatureMissingError
from openinfer_backend_vulkan.glsl.loop_programs import ITERATIONS
from openinfer_backend_vulkan.glsl.shaders import workgroups
from openinfer_backend_vulkan.programs.integers import StepFaultError
from openinfer_backend_vulkan.queue.commands import Dispatch
from openinfer_backend_vulkan.queue.faults import FaultWords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from openinfer_backend_vulkan.glsl.loop_programs import Printed
    from openinfer_backend_vulkan.glsl.shaders import Fault, Shader
    from openinfer_backend_vulkan.memory.blocks import Part
    from openinfer_backend_vulkan.programs.machine import Machine
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Command, Place
    from openinfer_backend_vulkan.queue.pipelines import Pipeline

    Places: TypeAlias = Mapping[str, Place]
    """Where the tensors of a kernel lie, by name."""


_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
"""Numbers that a word of a shader holds."""


class FixedKernel:
    """A shader whose numbers are the same in every step.

    Attributes:
        faults: what it may find wrong; None: nothing.
    """

    def __init__(self, shader: Shader, reads: Sequence[str], writes: Sequence[str], engine: Engine) -> None:
        _need_features(shader.features, engine)
        self._shader, self._reads, self._writes, self._engine = shader, tuple(reads), tuple(writes), engine
        self.faults = _fault_words(shader.faults, engine)
        self._groups = workgroups(shader.threads, engine.device.physical.max_groups, shader.group_size)
        buffers = len(reads) + len(writes) + (self.faults is not None) + (not shader.is_pushed)
        pushed = len(shader.parameters) if shader.is_pushed else 0
        self._pipeline = engine.pipelines.pipeline(shader.source, buffers, pushed)
        self._numbers = () if shader.is_pushed else (engine.uploaded(_bytes(shader.parameters)),)

    def commands(self, places: Places) -> list[Command]:
        """Return what runs it on tensors."""
        if not self._shader.threads:
            return []
        reads = (*(places[name] for name in self._reads), *self._numbers)
        writes = tuple(places[name] for name in self._writes)
        return [_dispatch(self._engine, self._pipeline, reads, writes, self.faults, self._groups, self._pushed)]

    @property
    def _pushed(self) -> tuple[int, ...]:
        return self._shader.parameters if self._shader.is_pushed else ()


class VaryingKernel:
    """A shader whose numbers are written into the parameter block in each step.

    Attributes:
        text: its source, and what its numbers are.
        faults: as of `FixedKernel`.
    """

    def __init__(self, text: Printed, op: str, engine: Engine) -> None:
        _need_features(text.features, engine)
        self.text, self._engine = text, engine
        self.faults = _fault_words(text.faults(op, {}), engine)
        buffers = len(text.reads) + len(text.writes) + (self.faults is not None) + 1
        self._pipeline = engine.pipelines.pipeline(text.source, buffers)
        self._fixed = [number if isinstance(number, int) else 0 for number in text.numbers]
        names = [(position, number) for position, number in enumerate(text.numbers) if isinstance(number, str)]
        self._named = [(position, name) for position, name in names if name != ITERATIONS]
        self._count = next(position for position, name in names if name == ITERATIONS)
        self._known: dict[tuple[object, ...], list[Command]] = {}

    @property
    def words(self) -> int:
        """Words of the parameter block that it takes."""
        return len(self._fixed) + 3

    def run(
        self,
        machine: Machine,
        places: Places,
        values: Mapping[str, int],
        counted: Callable[[Part], None] | None = None,
    ) -> None:
        """Queue it on tensors with values of its parameters; space for its words is reserved.

        Args:
            counted: queues what writes the words that the device knows, and the number of workgroups, before it.

        Raises:
            StepFaultError: ``out-of-range``, a value is more than a word holds; nothing is queued then.
        """
        text, size = self.text, len(self._fixed)
        for _, name in self._named:
            if not _LEAST <= values[name] <= _MOST:
                message = f"a size of {values[name]} is outside of {_LEAST} to {_MOST}, which kernels take"
                raise StepFaultError("out-of-range", message)
        first = machine.block.take(size + 3)
        iterations, words = text.iterations(values) if counted is None else 0, machine.block.words
        numbers = self._fixed
        for position, name in self._named:
            numbers[position] = values[name]
        numbers[self._count] = iterations
        groups = (0, 1, 1)
        if iterations:
            groups = workgroups(iterations * text.local, self._engine.device.physical.max_groups, text.group_size)
        for position, number in enumerate((*numbers, *groups), first):
            words[position] = number
        if counted is not None:
            counted(machine.block.part(first, size + 3))
        key = (first, *(places[name] for name in (*text.reads, *text.writes)))
        if key not in self._known:
            self._known[key] = [self._dispatch(machine, places, first)]
        machine.add(self._known[key])

    def _dispatch(self, machine: Machine, places: Places, first: int) -> Command:
        size = len(self._fixed)
        numbers, groups = machine.block.part(first, size), machine.block.part(first + size, 3)
        reads = (*(places[name] for name in self.text.reads), numbers)
        writes = tuple(places[name] for name in self.text.writes)
        return _dispatch(self._engine, self._pipeline, reads, writes, self.faults, groups, ())


def _dispatch(
    engine: Engine,
    pipeline: Pipeline,
    reads: tuple[Place, ...],
    writes: tuple[Place, ...],
    faults: FaultWords | None,
    groups: tuple[int, int, int] | Part,
    pushed: tuple[int, ...],
) -> Dispatch:
    """Return a run of a shader; the last of ``reads`` are its numbers, where they are not pushed."""
    numbers = () if pushed else reads[-1:]
    operands = reads[: len(reads) - len(numbers)]
    written = writes if faults is None else (*writes, faults.storage)
    bound = engine.pipelines.bind(pipeline, [*operands, *written, *numbers])
    return Dispatch(pipeline=pipeline, bound=bound, groups=groups, pushed=pushed, reads=reads, writes=written)


def _fault_words(faults: Sequence[Fault], engine: Engine) -> FaultWords | None:
    return FaultWords(engine.memory.mapped(4 * len(faults)), faults) if faults else None


def _bytes(numbers: Sequence[int]) -> npt.NDArray[np.uint8]:
    return (np.array(numbers, np.int64) & 0xFFFFFFFF).astype(np.uint32).view(np.uint8)


def _need_features(features: frozenset[str], engine: Engine) -> None:
    physical = engine.device.physical
    missing = features - physical.features
    if missing:
        needed = ", ".join(sorted(missing))
        raise FeatureMissingError(f"{physical.name} does not support what a kernel needs: {needed}")
