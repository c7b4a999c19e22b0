"""Reshaping: elements keep their row-major order, so it is a copy of words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.buffers import WORDS
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("reshape", dtypes=frozenset(WORDS))
def reshape(call: OpCall) -> Shader:
    """Copy element by element; one element is one word."""
    return copy_shader(call.outputs[0].count)


def copy_shader(words: int) -> Shader:
    """Return the kernel that copies so many words from one buffer to another."""
    return Shader(rendered("copy.comp.j2"), (words,), words)
