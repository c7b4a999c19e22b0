"""Tensors in device memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.simulate.devices.backend import Buffer
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer


@dataclass(frozen=True, slots=True, eq=False)
class VulkanBuffer:
    """A tensor in device memory."""

    type: TensorType
    storage: StorageBuffer


def own(buffer: Buffer) -> VulkanBuffer:
    """Return a buffer of this device as what it is.

    Raises:
        TypeError: it is memory of another device.
    """
    if not isinstance(buffer, VulkanBuffer):
        raise TypeError(f"expected a buffer of the device vulkan, found {type(buffer).__name__}")
    return buffer
