"""The parts of an opened device that programs work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer_backend_vulkan.glsl import contents

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.memory.blocks import Memory, StorageBuffer
    from openinfer_backend_vulkan.memory.staging import Staging
    from openinfer_backend_vulkan.queue.commands import CommandQueue
    from openinfer_backend_vulkan.queue.pipelines import Pipelines

SMALL_BYTES = 64
"""Tensors of at most so many bytes that programs write stay where the host reads them: conditions, bounds, indices."""


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """A device with its memory and its queue."""

    device: Device
    memory: Memory
    staging: Staging
    pipelines: Pipelines
    queue: CommandQueue

    def room(self, nbytes: int) -> StorageBuffer:
        """Return a buffer for what programs write, with undefined content.

        Raises:
            DeviceError: ``too-large``, as `Memory.tensor` says.
        """
        return self.memory.mapped(nbytes) if nbytes <= SMALL_BYTES else self.memory.tensor(nbytes)

    def uploaded(self, content: npt.NDArray[np.uint8]) -> StorageBuffer:
        """Return a buffer that holds these bytes.

        Raises:
            DeviceError: as for `room`.
        """
        storage = self.memory.tensor(content.size)
        self.store(storage, content)
        return storage

    def store(self, storage: StorageBuffer, content: npt.NDArray[np.uint8]) -> None:
        """Have a buffer that no unfinished work uses hold these bytes."""
        if storage.is_mapped:
            np.copyto(storage.view(np.dtype(np.uint8), content.size), content)
        else:
            self.staging.upload(storage, content)

    def fetched(self, storage: StorageBuffer, kind: TensorType) -> npt.NDArray[np.generic]:
        """Return what a buffer holds after all work, as a private array in storage form.

        Raises:
            DeviceError: the device is lost.
        """
        if storage.is_mapped:
            self.queue.synchronize()
            return contents.array_of(kind, storage.view(np.dtype(np.uint8), kind.nbytes).copy())
        self.queue.submit()
        return contents.array_of(kind, self.staging.download(storage, kind.nbytes))
