"""An opened device: the logical device with its queue, and the release of everything made on it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from openinfer.errors import DeviceError
from openinfer_backend_vulkan.api.matrices import MATRIX_EXTENSIONS, matrix_features
from openinfer_backend_vulkan.api.native import Handle, Structs, created, foreign, library
from openinfer_backend_vulkan.api.owned import Owned
from openinfer_backend_vulkan.api.physical import (
    BYTES_EXTENSION,
    PhysicalDevice,
    address,
    physical_devices,
    shared_instance,
)
from openinfer_backend_vulkan.api.probe import DRIVER_ADVICE
from openinfer_backend_vulkan.spirv.float_modes import EXTENSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Device:
    """A logical device. `close` releases it with all that was made on it; so does the end of the interpreter.

    It works in the process that opened it: in a forked copy the driver's threads are missing, and calls that wait for
    them never return. There it counts as closed, and nothing is released.

    Attributes:
        name: what it is called as a device of OpenInfer.
        handle: the logical device.
        queue: the queue that all work goes to.
        physical: what it runs on.
        lock: held while something is submitted to the queue, or all of it is waited for.
    """

    def __init__(self, ordinal: int = 0) -> None:
        """Open the device of that number.

        Raises:
            DeviceError: there is no such device, it cannot compute, or its driver refuses.
        """
        self.name = address(ordinal)
        self.physical = _chosen(physical_devices(shared_instance()), ordinal)
        self.handle = _logical(self.physical)
        self._owned = Owned()
        self.lock = threading.RLock()
        self._finalizer = weakref.finalize(self, _close, self._owned, self.handle, self.lock)
        handle = self.handle
        self.own(lambda: library().vkDestroyDevice(handle, foreign().NULL))
        slot = foreign().new("VkQueue*")
        library().vkGetDeviceQueue(handle, self.physical.queue_family, 0, slot)
        self.queue: Handle = slot[0]

    @property
    def closed(self) -> bool:
        return self._owned.is_inherited or self._owned.is_closed

    def need_open(self) -> None:
        """Refuse to go on where the device is of no use.

        Raises:
            DeviceError: it was closed, or opened in a process that this one was forked from.
        """
        if self._owned.is_inherited:
            message = f"the device {self.name} was opened before this process was forked: open it again in this process"
            raise DeviceError(message)
        if self.closed:
            raise DeviceError(f"the device {self.name} was closed")

    def own(self, release: Callable[[], None]) -> int:
        """Have ``release`` called when the device closes, latest first, unless it is called for earlier.

        Returns the number to hand to `release`.
        """
        return self._owned.add(release)

    def destroying(self, function: str, handle: Handle) -> int:
        """Own a handle whose ``function`` takes the device, the handle and no allocator."""
        destroy, device, null = getattr(library(), function), self.handle, foreign().NULL
        return self.own(lambda: destroy(device, handle, null))

    def release(self, number: int) -> None:
        """Release something owned, which no unfinished work may use. After `close` this does nothing."""
        self._owned.release(number)

    def lend(self, number: int, borrower: object) -> None:
        """Keep something owned for as long as an object is there, also after `close`."""
        self._owned.lend(number, borrower)

    def close(self) -> None:
        """Release everything but what is lent. Work must be done; closing twice does nothing."""
        self._finalizer()


def _close(owned: Owned, handle: Handle, lock: AbstractContextManager[bool]) -> None:
    if not owned.is_inherited:
        with lock:
            library().vkDeviceWaitIdle(handle)
    owned.close()


def _chosen(devices: list[PhysicalDevice], ordinal: int) -> PhysicalDevice:
    if not devices:
        raise DeviceError(f"no driver offers a Vulkan device: {DRIVER_ADVICE}")
    if not 0 <= ordinal < len(devices):
        listed = ", ".join(f"{n} ({device.name})" for n, device in enumerate(devices))
        raise DeviceError(f"there is no Vulkan device number {ordinal}; there are: {listed}")
    device = devices[ordinal]
    if device.unusable is not None:
        raise DeviceError(f"Vulkan device number {ordinal}, {device.name}, cannot be used: {device.unusable}")
    return device


def extensions_of(physical: PhysicalDevice) -> tuple[str, ...]:
    """Return the device extensions that are switched on."""
    return (
        *((EXTENSION,) if physical.float_modes else ()),
        *((BYTES_EXTENSION,) if 8 in physical.narrow else ()),
        *(MATRIX_EXTENSIONS if physical.matrices else ()),
    )


def _logical(physical: PhysicalDevice) -> Handle:
    structs = Structs()
    queue = structs.new(
        "VkDeviceQueueCreateInfo",
        queueFamilyIndex=physical.queue_family,
        queueCount=1,
        pQueuePriorities=structs.array("float", [1.0]),
    )
    extensions = [structs.array("char", f"{name}\0".encode()) for name in extensions_of(physical)]
    storage = structs.new("VkPhysicalDevice16BitStorageFeatures", storageBuffer16BitAccess=16 in physical.narrow)
    if 8 in physical.narrow:
        storage.pNext = structs.new("VkPhysicalDevice8BitStorageFeatures", storageBuffer8BitAccess=1)
    if physical.matrices:
        matrices = matrix_features(structs)
        matrices[-1].pNext = storage.pNext
        storage.pNext = matrices[0]
    info = structs.new(
        "VkDeviceCreateInfo",
        pNext=storage,
        queueCreateInfoCount=1,
        pQueueCreateInfos=queue,
        enabledExtensionCount=len(extensions),
        ppEnabledExtensionNames=structs.array("char*", extensions),
        pEnabledFeatures=structs.new("VkPhysicalDeviceFeatures", **dict.fromkeys(physical.features, 1)),
    )
    return created("vkCreateDevice", "VkDevice", physical.handle, info, foreign().NULL)
