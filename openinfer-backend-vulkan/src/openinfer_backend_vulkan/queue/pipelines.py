"""Compute pipelines, one for each shader, and the descriptor sets that bind buffers to them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import UnsupportedError
from openinfer.simulate.logs import LogKind, log
from openinfer_backend_vulkan.api.native import Handle, Structs, VulkanCallError, created, foreign, library
from openinfer_backend_vulkan.queue.pipeline_cache import PipelineCache
from openinfer_backend_vulkan.spirv.compiler import compile_shader
from openinfer_backend_vulkan.spirv.float_modes import with_modes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.memory.blocks import Part, StorageBuffer

_SETS_IN_POOL = 256
_BUFFERS_IN_POOL = 2048


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """A shader ready to run on ``bindings`` storage buffers and ``pushed`` words of push constants."""

    handle: Handle
    layout: Handle
    set_layout: Handle
    bindings: int
    pushed: int


class DescriptorSet:
    """Buffers bound to a pipeline; released when nothing refers to it any more."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle


class Pipelines:
    """Makes and keeps the pipelines and descriptor sets of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._cache = PipelineCache(device)
        self._known: dict[tuple[str, int, int], Pipeline] = {}
        self._pools: list[Handle] = []
        self._dropped: list[int] = []

    def pipeline(self, source: str, bindings: int, pushed: int = 0) -> Pipeline:
        """Return the pipeline of a GLSL compute shader with so many storage buffers and words of push constants.

        Known ones are shared.

        Raises:
            MissingDependencyError: there is no GLSL compiler.
            UnsupportedError: there are more buffers than the device can bind, or the compiler refuses the source.
            DeviceError: the driver refuses the shader.
        """
        limit = self._device.physical.max_storage_buffers
        if bindings > limit:
            raise UnsupportedError(f"a kernel of {bindings} buffers, and this device binds {limit} to a kernel at most")
        key = (source, bindings, pushed)
        if key not in self._known:
            code = with_modes(compile_shader(source), self._device.physical.float_modes)
            self._known[key] = self._create(code, bindings, pushed)
            log(LogKind.VK_TRACE, f"pipeline {len(self._known)}: {bindings} buffers, {len(code)} bytes of SPIR-V")
        return self._known[key]

    def _create(self, code: bytes, bindings: int, pushed: int) -> Pipeline:
        device, null = self._device, foreign().NULL
        set_layout = _create_set_layout(device, bindings)
        layout = _create_layout(device, set_layout, pushed)
        module = _create_module(device, code)
        try:
            handle = _create_pipeline(device, self._cache.handle, layout, module)
        finally:
            library().vkDestroyShaderModule(device.handle, module, null)
        return Pipeline(handle, layout, set_layout, bindings, pushed)

    def bind(self, pipeline: Pipeline, buffers: Sequence[StorageBuffer | Part]) -> DescriptorSet:
        """Return a new descriptor set of a pipeline with these buffers, in order of their bindings."""
        while self._dropped:
            self._device.release(self._dropped.pop())
        pool, handle = self._allocate(pipeline)
        _write_set(self._device, handle, buffers)
        made = DescriptorSet(handle)
        device, free = self._device.handle, library().vkFreeDescriptorSets
        slot = foreign().new("VkDescriptorSet[]", [handle])
        number = self._device.own(lambda: free(device, pool, 1, slot))
        weakref.finalize(made, self._dropped.append, number).atexit = False
        return made

    def _allocate(self, pipeline: Pipeline) -> tuple[Handle, Handle]:
        for pool in reversed(self._pools):
            try:
                return pool, _allocate_set(self._device, pool, pipeline)
            except VulkanCallError as error:
                if error.result not in ("VK_ERROR_OUT_OF_POOL_MEMORY", "VK_ERROR_FRAGMENTED_POOL"):
                    raise
        self._pools.append(_create_pool(self._device, max(_BUFFERS_IN_POOL, pipeline.bindings)))
        return self._pools[-1], _allocate_set(self._device, self._pools[-1], pipeline)


def _create_set_layout(device: Device, bindings: int) -> Handle:
    lib, structs = library(), Structs()
    described = [
        structs.new(
            "VkDescriptorSetLayoutBinding",
            binding=number,
            descriptorType=lib.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            descriptorCount=1,
            stageFlags=lib.VK_SHADER_STAGE_COMPUTE_BIT,
        )[0]
        for number in range(bindings)
    ]
    info = structs.new("VkDescriptorSetLayoutCreateInfo", bindingCount=bindings, pBindings=described)
    handle = created("vkCreateDescriptorSetLayout", "VkDescriptorSetLayout", device.handle, info, foreign().NULL)
    device.destroying("vkDestroyDescriptorSetLayout", handle)
    return handle


def _create_layout(device: Device, set_layout: Handle, pushed: int) -> Handle:
    structs, stage = Structs(), library().VK_SHADER_STAGE_COMPUTE_BIT
    constants = structs.new("VkPushConstantRange", stageFlags=stage, size=4 * pushed)
    info = structs.new(
        "VkPipelineLayoutCreateInfo",
        setLayoutCount=1,
        pSetLayouts=[set_layout],
        pushConstantRangeCount=1 if pushed else 0,
        pPushConstantRanges=constants,
    )
    handle = created("vkCreatePipelineLayout", "VkPipelineLayout", device.handle, info, foreign().NULL)
    device.destroying("vkDestroyPipelineLayout", handle)
    return handle


def _create_module(device: Device, code: bytes) -> Handle:
    structs = Structs()
    words = structs.array("uint32_t", len(code) // 4)
    foreign().memmove(words, code, len(code))
    info = structs.new("VkShaderModuleCreateInfo", codeSize=len(code), pCode=words)
    return created("vkCreateShaderModule", "VkShaderModule", device.handle, info, foreign().NULL)


def _create_pipeline(device: Device, cache: Handle, layout: Handle, module: Handle) -> Handle:
    lib, structs = library(), Structs()
    stage = structs.new(
        "VkPipelineShaderStageCreateInfo", stage=lib.VK_SHADER_STAGE_COMPUTE_BIT, module=module, pName="main"
    )
    info = structs.new("VkComputePipelineCreateInfo", stage=stage[0], layout=layout, basePipelineIndex=-1)
    null = foreign().NULL
    handle = created("vkCreateComputePipelines", "VkPipeline", device.handle, cache, 1, info, null)
    device.destroying("vkDestroyPipeline", handle)
    return handle


def _create_pool(device: Device, buffers: int) -> Handle:
    lib, structs = library(), Structs()
    size = structs.new("VkDescriptorPoolSize", type=lib.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptorCount=buffers)
    info = structs.new(
        "VkDescriptorPoolCreateInfo",
        flags=lib.VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT,
        maxSets=_SETS_IN_POOL,
        poolSizeCount=1,
        pPoolSizes=size,
    )
    handle = created("vkCreateDescriptorPool", "VkDescriptorPool", device.handle, info, foreign().NULL)
    device.destroying("vkDestroyDescriptorPool", handle)
    return handle


def _allocate_set(device: Device, pool: Handle, pipeline: Pipeline) -> Handle:
    structs = Structs()
    info = structs.new(
        "VkDescriptorSetAllocateInfo", descriptorPool=pool, descriptorSetCount=1, pSetLayouts=[pipeline.set_layout]
    )
    return created("vkAllocateDescriptorSets", "VkDescriptorSet", device.handle, info)


def _write_set(device: Device, handle: Handle, buffers: Sequence[StorageBuffer | Part]) -> None:
    lib, structs = library(), Structs()
    writes = [
        structs.new(
            "VkWriteDescriptorSet",
            dstSet=handle,
            dstBinding=number,
            descriptorCount=1,
            descriptorType=lib.VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            pBufferInfo=structs.new(
                "VkDescriptorBufferInfo", buffer=buffer.handle, offset=buffer.offset, range=buffer.nbytes
            ),
        )[0]
        for number, buffer in enumerate(buffers)
    ]
    lib.vkUpdateDescriptorSets(
        device.handle, len(writes), structs.array("VkWriteDescriptorSet", writes), 0, foreign().NULL
    )
