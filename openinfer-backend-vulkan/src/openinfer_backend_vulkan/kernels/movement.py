"""Data movement: elements keep their bits and take other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.catalog.movement import permutation
from openinfer.ops.catalog.rearrangement import RULES, moved_by
from openinfer.ops.shapes import axis_of, integer, needed
from openinfer.ops.strides import contiguous
from openinfer_backend_vulkan.buffers import device_nbytes
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Pass, Shader
from openinfer_backend_vulkan.strided import copy_shader, strided_copy

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("reshape")
@kernel("flatten")
@kernel("identity")
def reshape(call: OpCall) -> Shader:
    """Elements keep their row-major order, so this is a copy."""
    return copy_shader(device_nbytes(call.outputs[0]))


@kernel("transpose")
def transpose(call: OpCall) -> Shader:
    """Output dimension d is input dimension ``perm[d]``."""
    x, out = needed(call.inputs), call.outputs[0].shape
    steps = contiguous(x.shape)
    order = permutation(call.settings, len(x.shape))
    return strided_copy(x.dtype, out, (0, [steps[axis] for axis in order]), (0, contiguous(out)))


def rearrange(call: OpCall) -> tuple[Pass, ...]:
    """The view of x that belongs to each output."""
    x = needed(call.inputs)
    own = contiguous(x.shape)
    views = [moved.view for moved, _ in zip(moved_by(call), call.outputs, strict=False)]
    return tuple(
        Pass(
            strided_copy(x.dtype, view.extents, (view.offset(own), view.strides(own)), (0, contiguous(view.extents))),
            (0,),
            (number,),
        )
        for number, view in enumerate(views)
    )


for _name in RULES:
    kernel(_name)(rearrange)


@kernel("concat")
def concat(call: OpCall) -> tuple[Pass, ...]:
    """Each input at its part of the result."""
    out = call.outputs[0]
    axis, steps = _joined_axis(call), contiguous(out.shape)
    passes: list[Pass] = []
    start = 0
    for number in range(len(call.inputs)):
        x = needed(call.inputs, number)
        shader = strided_copy(out.dtype, x.shape, (0, contiguous(x.shape)), (start * steps[axis], steps))
        passes.append(Pass(shader, (number,), (0,)))
        start += x.shape[axis]
    return tuple(passes)


@kernel("stack")
def stack(call: OpCall) -> tuple[Pass, ...]:
    """Each input at its place along an axis of the result."""
    out = call.outputs[0]
    axis, steps = _joined_axis(call), contiguous(out.shape)
    kept = (*steps[:axis], *steps[axis + 1 :])
    shape = needed(call.inputs).shape
    shaders = (
        strided_copy(out.dtype, shape, (0, contiguous(shape)), (number * steps[axis], kept))
        for number in range(len(call.inputs))
    )
    return tuple(Pass(shader, (number,), (0,)) for number, shader in enumerate(shaders))


def _joined_axis(call: OpCall) -> int:
    return axis_of(integer(call.settings.get("axis"), "axis"), len(call.outputs[0].shape))
