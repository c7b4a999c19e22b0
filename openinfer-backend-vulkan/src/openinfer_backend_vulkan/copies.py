"""Copies of whole buffers."""

from __future__ import annotations

from openinfer_backend_vulkan.shaders import Shader, rendered


def copy_shader(nbytes: int) -> Shader:
    """Return the kernel that copies whole words of 32 bits from one buffer to another."""
    return Shader(rendered("copy.comp.j2"), (nbytes // 4,), nbytes // 4)
