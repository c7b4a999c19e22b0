"""What a driver has compiled shaders to, on disk: one file for each device and version of its driver.

Drivers must reject data of others, and may crash on damaged ones: a file is read if its digest and the header of its
data are right, and else passed over.
"""

from __future__ import annotations

import contextlib
import hashlib
from struct import Struct
from typing import TYPE_CHECKING

from openinfer.object_cache import ObjectCache
from openinfer.simulate.logs import LogKind, log
from openinfer_backend_vulkan.api.native import Handle, Structs, VulkanCallError, call, created, foreign, library

if TYPE_CHECKING:
    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.api.physical import Driver

_KEPT = ObjectCache(name="openinfer-pipelines", suffix=".bin", holds="compiled pipelines")
_HEADER = Struct("<IIII16s")
"""Size of the header, its version, vendor, device, and the identity of the format (VkPipelineCacheHeaderVersionOne)."""


class PipelineCache:
    """The pipelines that a driver compiled in this and earlier processes. They are kept when the device is closed.

    Attributes:
        handle: the Vulkan pipeline cache.
    """

    def __init__(self, device: Device) -> None:
        self._device = device.handle
        self._key = key_of(device.physical.driver)
        self._known = known(device.physical.driver)
        try:
            self.handle = self._made(self._known)
        except VulkanCallError:
            self.handle = self._made(b"")
        log(LogKind.VK_TRACE, f"pipelines of earlier processes: {len(self._known)} bytes")
        device.destroying("vkDestroyPipelineCache", self.handle)
        # Called when the device is closed, before the cache is destroyed: whatever is made later is released earlier.
        device.own(self._keep)

    def _made(self, data: bytes) -> Handle:
        fields = {"initialDataSize": len(data), "pInitialData": data} if data else {}
        info = Structs().new("VkPipelineCacheCreateInfo", **fields)
        return created("vkCreatePipelineCache", "VkPipelineCache", self._device, info, foreign().NULL)

    def _keep(self) -> None:
        with contextlib.suppress(VulkanCallError):  # The device was lost: what earlier processes have kept stays.
            data = self._data()
            if data != self._known and _HEADER.size < len(data) <= _KEPT.limit_nbytes:
                _KEPT.keep(self._key, data)

    def _data(self) -> bytes:
        ffi = foreign()
        size = ffi.new("size_t*")
        call("vkGetPipelineCacheData", self._device, self.handle, size, ffi.NULL)
        data = ffi.new("char[]", max(size[0], 1))
        call("vkGetPipelineCacheData", self._device, self.handle, size, data)
        return bytes(ffi.buffer(data, size[0]))


def key_of(driver: Driver) -> str:
    """Return the name under which the pipelines of a driver are kept."""
    about = f"{driver.vendor:x} {driver.device:x} {driver.version:x} {driver.cache_uuid.hex()}"
    return hashlib.sha256(about.encode()).hexdigest()


def known(driver: Driver) -> bytes:
    """Return what was kept for a driver; nothing if that is damaged or of another one."""
    data = _KEPT.read(key_of(driver)) or b""
    if len(data) < _HEADER.size:
        return b""
    size, version, vendor, device, identity = _HEADER.unpack_from(data)
    is_right = version == library().VK_PIPELINE_CACHE_HEADER_VERSION_ONE and _HEADER.size <= size <= len(data)
    return data if is_right and (vendor, device, identity) == (driver.vendor, driver.device, driver.cache_uuid) else b""
