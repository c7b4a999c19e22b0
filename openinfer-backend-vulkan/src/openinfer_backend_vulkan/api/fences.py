"""Submission of recorded commands, and waiting for their end."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

from openinfer_backend_vulkan.api.native import Handle, Structs, call, check, created, foreign, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.api.device import Device

_WAIT_NS = 200_000_000
"""Longest single wait; between two of them an interrupt from the keyboard gets through."""

_SPIN_NS = 500_000
"""How long a wait asks again and again before it sleeps: waking up adds a tenth to a step of this time."""

_SOFTWARE_SPIN_NS = 50_000
"""Likewise, where the processor that asks has the work to do."""


class Fence:
    """A fence that signals the end of one submission at a time."""

    def __init__(self, device: Device) -> None:
        self._device = device
        info = Structs().new("VkFenceCreateInfo")
        self._handle = created("vkCreateFence", "VkFence", device.handle, info, foreign().NULL)
        self._handles = foreign().new("VkFence[]", [self._handle])
        device.destroying("vkDestroyFence", self._handle)
        self._is_pending = False

    @property
    def is_pending(self) -> bool:
        """Whether there is a submission that was not waited for."""
        return self._is_pending

    def submit(self, commands: Sequence[Handle]) -> None:
        """Run command buffers after what was submitted before; waits for the submission before with this fence.

        Whoever is interrupted here sees from `is_pending` whether it was submitted.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._device.need_open()
        self.wait()
        structs = Structs()
        info = structs.new("VkSubmitInfo", commandBufferCount=len(commands), pCommandBuffers=list(commands))
        call("vkResetFences", self._device.handle, 1, self._handles)
        submit, queue, handle = library().vkQueueSubmit, self._device.queue, self._handle
        # A handler of signals runs when the call has returned: whatever it raises, there is a submission to wait for.
        with self._device.lock:
            self._is_pending = True
            code = submit(queue, 1, info, handle)
            self._is_pending = code == 0
        check("vkQueueSubmit", code)

    def wait(self) -> None:
        """Wait until the submission is done. Whoever is interrupted here can wait again.

        Raises:
            DeviceError: the device is lost.
        """
        if not self._is_pending:
            return
        lib = library()
        code = self._spun()
        while code in (lib.VK_NOT_READY, lib.VK_TIMEOUT):
            code = lib.vkWaitForFences(self._device.handle, 1, self._handles, 1, _WAIT_NS)
            check("vkWaitForFences", code)
        self._is_pending = False

    def is_done(self) -> bool:
        """Return whether the submission is done.

        Raises:
            DeviceError: the device is lost.
        """
        code = library().vkGetFenceStatus(self._device.handle, self._handles[0])
        check("vkGetFenceStatus", code)
        return code == library().VK_SUCCESS

    def _spun(self) -> int:
        """Ask until the submission is done, or for a short while; return the last answer."""
        lib, device, handle = library(), self._device.handle, self._handles[0]
        is_software = self._device.physical.kind == "software"
        until = perf_counter_ns() + (_SOFTWARE_SPIN_NS if is_software else _SPIN_NS)
        while True:
            code = lib.vkGetFenceStatus(device, handle)
            check("vkGetFenceStatus", code)
            if code == lib.VK_SUCCESS or perf_counter_ns() > until:
                return code


class CommandPool:
    """Gives out command buffers that can be recorded again."""

    def __init__(self, device: Device) -> None:
        self._device = device
        info = Structs().new(
            "VkCommandPoolCreateInfo",
            flags=library().VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
            queueFamilyIndex=device.physical.queue_family,
        )
        self._handle = created("vkCreateCommandPool", "VkCommandPool", device.handle, info, foreign().NULL)
        device.destroying("vkDestroyCommandPool", self._handle)

    def buffer(self) -> Handle:
        """Return a new command buffer."""
        info = Structs().new(
            "VkCommandBufferAllocateInfo",
            commandPool=self._handle,
            level=library().VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            commandBufferCount=1,
        )
        return created("vkAllocateCommandBuffers", "VkCommandBuffer", self._device.handle, info)


def barrier(commands: Handle, *, to_host: bool = False) -> None:
    """Record a barrier between all work before it and all work after it, or reads of the host after it."""
    lib, structs = library(), Structs()
    working = lib.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | lib.VK_PIPELINE_STAGE_TRANSFER_BIT
    device_stages = working | lib.VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT
    reads = lib.VK_ACCESS_SHADER_READ_BIT | lib.VK_ACCESS_TRANSFER_READ_BIT | lib.VK_ACCESS_INDIRECT_COMMAND_READ_BIT
    writes = lib.VK_ACCESS_SHADER_WRITE_BIT | lib.VK_ACCESS_TRANSFER_WRITE_BIT
    between = structs.new(
        "VkMemoryBarrier",
        srcAccessMask=writes,
        dstAccessMask=lib.VK_ACCESS_HOST_READ_BIT if to_host else reads | writes,
    )
    after = lib.VK_PIPELINE_STAGE_HOST_BIT if to_host else device_stages
    null = foreign().NULL
    lib.vkCmdPipelineBarrier(commands, device_stages, after, 0, 1, between, 0, null, 0, null)
