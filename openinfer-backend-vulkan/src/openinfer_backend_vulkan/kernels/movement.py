"""Data movement: elements keep their bits and take other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.catalog.movement import permutation
from openinfer.ops.shapes import needed
from openinfer.ops.strides import Walk, contiguous, merged
from openinfer_backend_vulkan.buffers import WORDS, device_nbytes
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("reshape")
@kernel("flatten")
@kernel("identity")
def reshape(call: OpCall) -> Shader:
    """Elements keep their row-major order, so this is a copy."""
    return copy_shader(device_nbytes(call.outputs[0]))


@kernel("transpose", dtypes=frozenset(WORDS))
def transpose(call: OpCall) -> Shader:
    """Output dimension d is input dimension ``perm[d]``."""
    shape = needed(call.inputs).shape
    order, steps = permutation(call.settings, len(shape)), contiguous(shape)
    return _gather(merged([shape[axis] for axis in order], [[steps[axis] for axis in order]]), call.outputs[0].count)


def copy_shader(nbytes: int) -> Shader:
    """Return the kernel that copies whole words from one buffer to another."""
    words = -(-nbytes // 4)
    return _gather(merged((words,), [(1,)]), words)


def _gather(walk: Walk, count: int) -> Shader:
    """Return the kernel that writes a walk's words one after the other."""
    return Shader(rendered("gather.comp.j2", rank=walk.rank), (count, *walk.extents, *walk.strides[0]), count)
