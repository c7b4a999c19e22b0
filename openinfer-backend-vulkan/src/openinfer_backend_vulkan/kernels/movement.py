"""Data movement: elements keep their bits and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.buffers import device_nbytes
from openinfer_backend_vulkan.copies import copy_shader
from openinfer_backend_vulkan.registration import kernel

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer_backend_vulkan.shaders import Shader


@kernel("reshape")
@kernel("flatten")
@kernel("identity")
def reshape(call: OpCall) -> Shader:
    """Elements keep their row-major order, so this is a copy."""
    return copy_shader(device_nbytes(call.outputs[0]))
