"""Handles of the device vulkan for other Vulkan code: what `Executor.native_device` and `native_buffer` return.

Handles are the numbers that the Vulkan loader knows them by, so that any binding can use them in this process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from openinfer.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedDevice:
    """A device that is open. Handles are valid until the executor is closed, the instance to the end of the process.

    Attributes:
        instance, physical_device, device, queue: VkInstance, VkPhysicalDevice, VkDevice and VkQueue.
        queue_family, queue_index: where the queue is from.
        api_version: major and minor number that the instance was made for.
        extensions: device extensions that are switched on; there are no instance extensions.
        features: fields of VkPhysicalDeviceFeatures that are switched on.
        lock: to hold while something is submitted to the queue, or the queue or device is waited for, on any thread.
    """

    instance: int
    physical_device: int
    device: int
    queue: int
    queue_family: int
    queue_index: int
    api_version: tuple[int, int]
    extensions: tuple[str, ...]
    features: tuple[str, ...]
    lock: AbstractContextManager[bool]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedBuffer:
    """Where a tensor lies: ``nbytes`` bytes of a VkBuffer from ``offset`` on, in storage form, row-major.

    The buffer has the usages storage buffer, indirect buffer, transfer source and destination, and belongs to the
    queue family of the device.
    """

    type: TensorType
    buffer: int
    offset: int
    nbytes: int
