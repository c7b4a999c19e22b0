"""The machine's Vulkan devices: what each is, and whether compute shaders can run on it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from openinfer_backend_vulkan.api.matrices import matrix_shapes
from openinfer_backend_vulkan.api.native import (
    API_VERSION,
    Handle,
    Structs,
    created,
    enumerated,
    foreign,
    library,
    text,
)
from openinfer_backend_vulkan.glsl.shaders import LLVMPIPE_TURNS, SOFTWARE_BUSY, ShaderTarget
from openinfer_backend_vulkan.spirv.float_modes import EXTENSION, KEEPS_HALVES, KEEPS_SUBNORMALS, MODES, FloatMode

if TYPE_CHECKING:
    from openinfer.schedule import TileShape

_KINDS = {0: "other", 1: "integrated GPU", 2: "discrete GPU", 3: "virtual GPU", 4: "software"}
FEATURES = ("shaderInt64", "shaderFloat64")
"""Optional features that are switched on where a device has them."""

BYTES_EXTENSION = "VK_KHR_8bit_storage"
"""With this device extension storage buffers can hold elements of 8 bits; those of 16 are part of Vulkan 1.1."""

SUBGROUP_SIZE_EXTENSION = "VK_EXT_subgroup_size_control"
"""With this device extension the sizes are known that subgroups may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """What compiled pipelines are for: numbers of vendor, device and driver, and what the driver calls its format."""

    vendor: int = 0
    device: int = 0
    version: int = 0
    cache_uuid: bytes = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PhysicalDevice:
    """A device that a driver offers.

    Attributes:
        api_version: major, minor and patch number.
        queue_family: number of the queue family to compute on; None where there is none.
        features: those of `FEATURES` that it has.
        max_storage_bytes: greatest storage buffer, in bytes.
        max_storage_buffers: greatest number of storage buffers bound to a shader.
        max_groups: greatest number of workgroups in x and y.
        float_modes: the floating-point modes that its shaders can ask for.
        extensions: names of the device extensions that it has.
        narrow: widths of less than 32 bits that its storage buffers can hold.
        max_invocations, shared_nbytes: greatest workgroup, and shared memory of one.
        subgroup_size: invocations that run in step.
        shuffled: invocations that can hand over values, always so many; 1 where there are none.
        matrices: what its subgroups multiply by cooperative matrices.
        push_nbytes: greatest push constants.
        tick_ns: nanoseconds of a tick of the device's clock.
        clock_bits: bits of the clock on the queue to compute on; 0 where it has none.
        driver: whose pipelines it runs.
    """

    handle: Handle
    name: str
    kind: str
    api_version: tuple[int, int, int]
    queue_family: int | None
    features: frozenset[str]
    max_storage_bytes: int
    max_storage_buffers: int
    max_groups: tuple[int, int]
    float_modes: tuple[FloatMode, ...] = ()
    extensions: frozenset[str] = frozenset()
    narrow: frozenset[int] = frozenset()
    max_invocations: int = 128
    shared_nbytes: int = 16384
    subgroup_size: int = 1
    shuffled: int = 1
    matrices: tuple[TileShape, ...] = ()
    push_nbytes: int = 128
    tick_ns: float = 0.0
    clock_bits: int = 0
    offset_alignment: int = 256
    driver: Driver = Driver()

    @property
    def most_turns(self) -> int | None:
        """Greatest number of loop iterations of one thread in a dispatch; None where there is no limit."""
        return LLVMPIPE_TURNS if self.name.startswith("llvmpipe") else None

    @property
    def shader_target(self) -> ShaderTarget:
        """What its shaders are made for."""
        return ShaderTarget(
            most_turns=self.most_turns,
            narrow=self.narrow,
            pushed_words=self.push_nbytes // 4,
            busy=SOFTWARE_BUSY if self.kind == "software" else ShaderTarget().busy,
            subgroup=self.shuffled,
            group=self.max_invocations,
            shared_nbytes=self.shared_nbytes,
            is_software=self.kind == "software",
            tiles=self.matrices,
            keeps_halves=KEEPS_HALVES in self.float_modes,
        )

    @property
    def keeps_subnormals(self) -> bool:
        """Whether its shaders can ask that subnormals of f32 are kept; else it may take them for zero."""
        return KEEPS_SUBNORMALS in self.float_modes

    @property
    def unusable(self) -> str | None:
        """Why compute shaders cannot run on it, or None when they can."""
        if self.api_version[:2] < API_VERSION:
            return "Vulkan {}.{}.{}, and 1.1 is needed: update its driver".format(*self.api_version)
        if self.queue_family is None:
            return "it has no queue for compute work"
        return None


def shared_instance() -> Handle:
    """Return the Vulkan instance of this process, made when first requested and kept to its end.

    Drivers of GPUs load themselves for each instance, and refuse to after some dozens of times.

    Raises:
        LoaderMissingError: there is no loader library.
        VulkanCallError: no driver can be loaded.
    """
    return _instance_of(os.getpid())


@cache
def _instance_of(process: int) -> Handle:
    """Return a new instance; what a forked process inherits is of no use to it."""
    del process
    structs = Structs()
    application = structs.new(
        "VkApplicationInfo", pApplicationName="openinfer", pEngineName="openinfer", apiVersion=packed(*API_VERSION)
    )
    info = structs.new("VkInstanceCreateInfo", pApplicationInfo=application)
    return created("vkCreateInstance", "VkInstance", info, foreign().NULL)


def address(ordinal: int) -> str:
    """Return what programs call the device of a number."""
    return f"vulkan:{ordinal}" if ordinal else "vulkan"


def physical_devices(instance: Handle) -> list[PhysicalDevice]:
    """Return the devices of all drivers in the loader's order, which is that of ``vulkan:0``, ``vulkan:1``, ..."""
    return [_described(instance, h) for h in enumerated("vkEnumeratePhysicalDevices", "VkPhysicalDevice", instance)]


def _described(instance: Handle, handle: Handle) -> PhysicalDevice:
    ffi, lib = foreign(), library()
    properties = ffi.new("VkPhysicalDeviceProperties*")
    lib.vkGetPhysicalDeviceProperties(handle, properties)
    features = ffi.new("VkPhysicalDeviceFeatures*")
    lib.vkGetPhysicalDeviceFeatures(handle, features)
    limits, extensions = properties.limits, _extensions(handle)
    narrow, subgroups = _narrow(handle, extensions), _subgroups(handle)
    shuffled = subgroups.subgroupSize if _are_shuffled(handle, subgroups, extensions) else 1
    return PhysicalDevice(
        handle=handle,
        name=text(properties.deviceName),
        kind=_KINDS.get(properties.deviceType, "other"),
        api_version=unpacked(properties.apiVersion),
        queue_family=(family := _compute_family(handle)),
        features=frozenset(name for name in FEATURES if getattr(features, name)),
        max_storage_bytes=limits.maxStorageBufferRange,
        max_storage_buffers=limits.maxPerStageDescriptorStorageBuffers,
        max_groups=(limits.maxComputeWorkGroupCount[0], limits.maxComputeWorkGroupCount[1]),
        float_modes=_float_modes(handle, extensions),
        extensions=extensions,
        narrow=narrow,
        max_invocations=limits.maxComputeWorkGroupInvocations,
        shared_nbytes=limits.maxComputeSharedMemorySize,
        subgroup_size=subgroups.subgroupSize,
        shuffled=shuffled,
        matrices=matrix_shapes(instance, handle, extensions, narrow) if shuffled > 1 else (),
        push_nbytes=limits.maxPushConstantsSize,
        tick_ns=limits.timestampPeriod,
        clock_bits=_clock_bits(handle, family),
        offset_alignment=limits.minStorageBufferOffsetAlignment,
        driver=Driver(
            vendor=properties.vendorID,
            device=properties.deviceID,
            version=properties.driverVersion,
            cache_uuid=bytes(properties.pipelineCacheUUID),
        ),
    )


def _extensions(handle: Handle) -> frozenset[str]:
    offered = enumerated("vkEnumerateDeviceExtensionProperties", "VkExtensionProperties", handle, foreign().NULL)
    return frozenset(text(extension.extensionName) for extension in offered)


def _float_modes(handle: Handle, extensions: frozenset[str]) -> tuple[FloatMode, ...]:
    if EXTENSION not in extensions:
        return ()
    structs = Structs()
    controls = structs.new("VkPhysicalDeviceFloatControlsProperties")
    library().vkGetPhysicalDeviceProperties2(handle, structs.new("VkPhysicalDeviceProperties2", pNext=controls))
    return tuple(mode for mode in MODES if getattr(controls, mode.property))


def _subgroups(handle: Handle) -> Handle:
    structs = Structs()
    subgroups = structs.new("VkPhysicalDeviceSubgroupProperties")
    library().vkGetPhysicalDeviceProperties2(handle, structs.new("VkPhysicalDeviceProperties2", pNext=subgroups))
    return subgroups


def _are_shuffled(handle: Handle, subgroups: Handle, extensions: frozenset[str]) -> bool:
    """Return whether compute shaders can exchange values within subgroups, and all subgroups have one size."""
    lib, structs = library(), Structs()
    is_offered = subgroups.supportedOperations & lib.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
    if not is_offered or not subgroups.supportedStages & lib.VK_SHADER_STAGE_COMPUTE_BIT:
        return False
    if SUBGROUP_SIZE_EXTENSION not in extensions:
        return False
    sizes = structs.new("VkPhysicalDeviceSubgroupSizeControlPropertiesEXT")
    lib.vkGetPhysicalDeviceProperties2(handle, structs.new("VkPhysicalDeviceProperties2", pNext=sizes))
    return sizes.minSubgroupSize == sizes.maxSubgroupSize == subgroups.subgroupSize


def _clock_bits(handle: Handle, family: int | None) -> int:
    if family is None:
        return 0
    families = enumerated("vkGetPhysicalDeviceQueueFamilyProperties", "VkQueueFamilyProperties", handle)
    return families[family].timestampValidBits


def _narrow(handle: Handle, extensions: frozenset[str]) -> frozenset[int]:
    structs = Structs()
    bytes_, halves = (structs.new(f"VkPhysicalDevice{bits}BitStorageFeatures") for bits in (8, 16))
    if BYTES_EXTENSION in extensions:
        halves.pNext = bytes_
    library().vkGetPhysicalDeviceFeatures2(handle, structs.new("VkPhysicalDeviceFeatures2", pNext=halves))
    has_storage = {8: bytes_.storageBuffer8BitAccess, 16: halves.storageBuffer16BitAccess}
    return frozenset(bits for bits, has in has_storage.items() if has)


def _compute_family(handle: Handle) -> int | None:
    """Return the compute queue family that supports the fewest other operations."""
    lib = library()
    families = enumerated("vkGetPhysicalDeviceQueueFamilyProperties", "VkQueueFamilyProperties", handle)
    computing = [n for n, f in enumerate(families) if f.queueCount and f.queueFlags & lib.VK_QUEUE_COMPUTE_BIT]
    return min(computing, key=lambda n: families[n].queueFlags.bit_count(), default=None)


def packed(major: int, minor: int, patch: int = 0) -> int:
    """Return a version number as the API packs it."""
    return major << 22 | minor << 12 | patch


def unpacked(version: int) -> tuple[int, int, int]:
    """Return major, minor and patch of a packed version number."""
    return version >> 22 & 0x7F, version >> 12 & 0x3FF, version & 0xFFF
