"""The clock of a device: how long the commands of a submission took there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.api.native import Handle, Structs, call, created, foreign, library

if TYPE_CHECKING:
    from openinfer_backend_vulkan.api.device import Device

_NAMES = ("begin", "end")


class Clock:
    """Two timestamps around the commands of one submission at a time."""

    def __init__(self, device: Device, tick_ns: float) -> None:
        self._device = device
        self._tick_ns = tick_ns
        self._mask = (1 << device.physical.clock_bits) - 1
        info = Structs().new(
            "VkQueryPoolCreateInfo", queryType=library().VK_QUERY_TYPE_TIMESTAMP, queryCount=len(_NAMES)
        )
        self._pool = created("vkCreateQueryPool", "VkQueryPool", device.handle, info, foreign().NULL)
        device.destroying("vkDestroyQueryPool", self._pool)

    def record_begin(self, commands: Handle) -> None:
        """Record the first timestamp, in front of the commands."""
        lib = library()
        lib.vkCmdResetQueryPool(commands, self._pool, 0, len(_NAMES))
        lib.vkCmdWriteTimestamp(commands, lib.VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, self._pool, 0)

    def record_end(self, commands: Handle) -> None:
        """Record the second timestamp, which is taken when the commands are done."""
        lib = library()
        lib.vkCmdWriteTimestamp(commands, lib.VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, self._pool, 1)

    def worked_ns(self) -> int:
        """Return nanoseconds between the timestamps of a submission that is done."""
        lib, ticks = library(), foreign().new("uint64_t[]", len(_NAMES))
        flags = lib.VK_QUERY_RESULT_64_BIT | lib.VK_QUERY_RESULT_WAIT_BIT
        call("vkGetQueryPoolResults", self._device.handle, self._pool, 0, len(_NAMES), 16, ticks, 8, flags)
        return round((ticks[1] - ticks[0] & self._mask) * self._tick_ns)
