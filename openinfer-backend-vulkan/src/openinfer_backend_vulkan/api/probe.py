"""Whether the device can be used here, and if not, why and what to do."""

from __future__ import annotations

from openinfer.errors import DeviceError
from openinfer.plugins.types import Availability
from openinfer_backend_vulkan.api.facts import facts
from openinfer_backend_vulkan.api.native import VulkanCallError
from openinfer_backend_vulkan.api.physical import PhysicalDevice, address, physical_devices, shared_instance
from openinfer_backend_vulkan.spirv.compiler import ADVICE, NAMES, find_compiler

DRIVER_ADVICE = (
    "install the graphics driver's Vulkan part, or a software device (Debian: apt install mesa-vulkan-drivers), and "
    "check VK_DRIVER_FILES and VK_ICD_FILENAMES if they are set"
)


def probe() -> Availability:
    """Return the devices found, or the first thing that is missing with what to do about it."""
    try:
        devices = physical_devices(shared_instance())
    except VulkanCallError as error:
        return Availability(available=False, detail=f"no Vulkan driver works here ({error}): {DRIVER_ADVICE}")
    except DeviceError as error:
        return Availability(available=False, detail=str(error))
    return _judged(devices)


def _judged(devices: list[PhysicalDevice]) -> Availability:
    if not devices:
        return Availability(available=False, detail=f"no driver offers a Vulkan device: {DRIVER_ADVICE}")
    listed = "; ".join(f"{address(n)} {described(device)}" for n, device in enumerate(devices))
    if all(device.unusable for device in devices):
        return Availability(available=False, detail=f"no Vulkan device can compute: {listed}")
    compiler = find_compiler()
    if compiler is None:
        detail = f"no GLSL compiler ({' or '.join(NAMES)}) on PATH: {ADVICE}; devices: {listed}"
        return Availability(available=False, detail=detail)
    hardware = {address(n): facts(device) for n, device in enumerate(devices) if device.unusable is None}
    return Availability(available=True, detail=f"{listed}; shaders by glslang {compiler.version}", hardware=hardware)


def described(device: PhysicalDevice) -> str:
    """Return one line about a device."""
    version = ".".join(map(str, device.api_version))
    about = f"{device.name} ({device.kind}, Vulkan {version})"
    return about if device.unusable is None else f"{about}, unusable: {device.unusable}"
