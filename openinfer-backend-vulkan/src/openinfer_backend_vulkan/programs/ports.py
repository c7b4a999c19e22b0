"""Inputs and results of a program on their way between steps: two steps may be under way, each with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.simulate.values import Tensor
from openinfer_backend_vulkan.glsl import contents
from openinfer_backend_vulkan.queue.commands import MOST_UNFINISHED, Copy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer
    from openinfer_backend_vulkan.queue.engine import Engine
    from openinfer_backend_vulkan.queue.hazards import Command, Place

MOST_COPIED = 1 << 20
"""Bytes of inputs that are copied for each step, so that the host may insert the next one at once."""

MOST_PARTS = 256
"""Copies of parts of inputs that are kept, for the sizes of some steps."""


class Inputs:
    """Private copies of inputs that the host writes in place.

    Attributes:
        storages: what a step reads of each input: the copy, or the input itself.
    """

    def __init__(self, storages: Sequence[StorageBuffer], engine: Engine) -> None:
        self._engine = engine
        self._copied = [storage for storage in storages if storage.is_mapped and storage.nbytes <= MOST_COPIED]
        copies = {id(storage): engine.memory.tensor(storage.nbytes) for storage in self._copied}
        self.storages = [copies.get(id(storage), storage) for storage in storages]
        slots = range(MOST_UNFINISHED)
        self._slots = [[engine.memory.mapped(storage.nbytes) for storage in self._copied] for _ in slots]
        self._copies = [
            [
                Copy(source=slot, target=copies[id(source)], nbytes=slot.nbytes)
                for slot, source in zip(held, self._copied, strict=True)
            ]
            for held in self._slots
        ]
        self._moves = [Copy(source=each, target=copies[id(each)], nbytes=each.nbytes) for each in self._copied]
        self._parts: dict[tuple[int, int, int], Copy] = {}
        self._used_by = [0 for _ in slots]
        self._current = 0

    def take(self, add: Callable[[Sequence[Command]], None], sized: Mapping[StorageBuffer, StorageBuffer]) -> None:
        """Copy the current values of inputs for the step that begins; ``add`` records the device's copies.

        Args:
            sized: of inputs whose shapes differ from step to step, the buffers that hold those of this step.
        """
        moves = [_whole(source, room) for room, source in sized.items() if room not in self._copied]
        if moves:
            add(moves)
        if not self._copied:
            return
        queue = self._engine.queue
        self._current = (self._current + 1) % len(self._slots)
        queue.finish(self._used_by[self._current])
        for place, room in enumerate(self._copied):
            source = sized.get(room, room)
            if queue.is_writing(source):
                # The device copies what it writes there itself, in order: nobody waits.
                add([self._moves[place] if source is room else _whole(source, self._moves[place].target)])
                continue
            slot, nbytes = self._slots[self._current][place], source.nbytes
            np.copyto(slot.view(np.dtype(np.uint8), nbytes), source.view(np.dtype(np.uint8), nbytes))
            add([self._part(place, nbytes)])

    def _part(self, place: int, nbytes: int) -> Copy:
        """Return the copy of the first bytes of a slot, which is one for all steps of a size."""
        copy = self._copies[self._current][place]
        if nbytes == copy.nbytes:
            return copy
        key = (self._current, place, nbytes)
        if key not in self._parts:
            if len(self._parts) >= MOST_PARTS:
                self._parts.clear()
            self._parts[key] = Copy(source=copy.source, target=copy.target, nbytes=nbytes)
        return self._parts[key]

    def submitted(self) -> None:
        """Note that the step is submitted."""
        self._used_by[self._current] = self._engine.queue.submissions


def _whole(source: StorageBuffer, target: Place) -> Copy:
    return Copy(source=source, target=target, nbytes=source.nbytes)


class Results:
    """Copies of what outputs hold at the end of a step, in memory of the host."""

    def __init__(self, outputs: Sequence[tuple[str, TensorType, StorageBuffer]], engine: Engine) -> None:
        self._outputs = outputs
        self._slots = [
            [engine.memory.mapped(max(kind.nbytes, 1)) for _, kind, _ in outputs] for _ in range(MOST_UNFINISHED)
        ]
        self._copies = [
            [
                Copy(source=output, target=slot, nbytes=kind.nbytes)
                for (_, kind, output), slot in zip(outputs, slots, strict=True)
                if kind.nbytes
            ]
            for slots in self._slots
        ]
        self._waiting: list[StartedStep | None] = [None] * MOST_UNFINISHED
        self._current = 0

    def free_slot(self) -> int:
        """Return the number of a slot for the next step; what an earlier step left there is taken first.

        Raises:
            DeviceError: the device is lost.
        """
        self._current = (self._current + 1) % len(self._slots)
        before = self._waiting[self._current]
        if before is not None:
            before.results()
        return self._current

    def copies(self, slot: int) -> list[Copy]:
        """Return the commands that copy results to a slot."""
        return self._copies[slot]

    def belong_to(self, step: StartedStep, slot: int) -> None:
        """Note which step a slot has the results of."""
        self._waiting[slot] = step

    def of_slot(self, slot: int) -> dict[str, Tensor]:
        """Return the results in a slot, which is free from then on."""
        self._waiting[slot] = None
        tensors: dict[str, Tensor] = {}
        for (name, kind, _), storage in zip(self._outputs, self._slots[slot], strict=True):
            held = storage.view(np.dtype(np.uint8), kind.nbytes).copy()
            tensors[name] = Tensor(kind.dtype, kind.shape, contents.array_of(kind, held))
        return tensors


class StartedStep:
    """A step that was submitted, as `openinfer.simulate.devices.programs.StartedStep` says."""

    def __init__(
        self,
        number: int,
        slot: int,
        results: Results,
        engine: Engine,
        kept: Mapping[str, Tensor],
    ) -> None:
        """Describe a step.

        Args:
            number: of its last submission.
            slot: where its results come to lie.
            kept: results that the host has computed.
        """
        self._number, self._slot = number, slot
        self._results, self._engine, self._kept = results, engine, kept
        self._found: dict[str, Tensor] | None = None
        results.belong_to(self, slot)

    def done(self) -> bool:
        """Return whether the device is done with the step."""
        return self._found is not None or self._engine.queue.is_finished(self._number)

    def results(self) -> dict[str, Tensor]:
        """Wait for the end of the step; return what the outputs were then.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        if self._found is None:
            self._engine.queue.finish(self._number)
            self._found = {**self._results.of_slot(self._slot), **self._kept}
        return self._found
