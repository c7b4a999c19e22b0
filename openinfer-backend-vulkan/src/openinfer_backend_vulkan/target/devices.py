"""What kernels are made for: the shader target of a device file, and the devices that the target knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.physical import LLVMPIPE_TURNS, SOFTWARE_BUSY
from openinfer_backend_vulkan.shaders import PORTABLE, ShaderTarget

if TYPE_CHECKING:
    from openinfer.arch import DeviceArch


def shader_target(arch: DeviceArch | None) -> ShaderTarget:
    """Return what shaders are made for."""
    if arch is None:
        return ShaderTarget(most_turns=LLVMPIPE_TURNS, busy=SOFTWARE_BUSY)
    return PORTABLE
