"""Elements at places that index inputs name; every index is tested before it is used."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import Kind
from openinfer.ops.catalog.indexing import hot_value
from openinfer.ops.shapes import axis_of, integer, needed
from openinfer.ops.strides import contiguous, merged
from openinfer_backend_vulkan.buffers import glsl_bits, words
from openinfer_backend_vulkan.indices import index_values, out_of_range
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Pass, Shader, rendered
from openinfer_backend_vulkan.words import element_bits

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("gather")
def gather(call: OpCall) -> tuple[Pass, ...]:
    """Slices of x along an axis."""
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(needed(call.inputs).shape))
    return _gather(call, (0, 1), axis, negative=True)


@kernel("embedding")
def embedding(call: OpCall) -> tuple[Pass, ...]:
    """Rows of a table."""
    return _gather(call, (1, 0), 0, negative=False)


def _gather(call: OpCall, numbers: tuple[int, int], axis: int, *, negative: bool) -> tuple[Pass, ...]:
    x, indices = (needed(call.inputs, number) for number in numbers)
    extent, count = x.shape[axis], call.outputs[0].count
    inner = math.prod(x.shape[axis + 1 :])
    source = rendered("gather.comp.j2", word=glsl_bits(x.dtype), **index_values(indices, 1, negative=negative))
    fault = out_of_range(call.op, indices, extent, negative=negative)
    return (Pass(Shader(source, (count, inner, indices.count, extent), count, fault=fault), numbers, (0,)),)


@kernel("gather_elements")
def gather_elements(call: OpCall) -> Shader:
    """The element of x at each position, with another place along an axis."""
    x, indices = needed(call.inputs), needed(call.inputs, 1)
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(x.shape))
    steps = contiguous(x.shape)
    walk = merged(indices.shape, [[0 if n == axis else step for n, step in enumerate(steps)]])
    source = rendered("gather_elements.comp.j2", word=glsl_bits(x.dtype), rank=walk.rank, **index_values(indices, 1))
    parameters = (indices.count, x.shape[axis], steps[axis], *walk.extents, *walk.strides[0])
    return Shader(source, parameters, indices.count, fault=out_of_range(call.op, indices, x.shape[axis]))


@kernel("gather_nd")
def gather_nd(call: OpCall) -> Shader:
    """Slices of x at tuples of places."""
    x, indices, count = needed(call.inputs), needed(call.inputs, 1), call.outputs[0].count
    batch, length = integer(call.settings.get("batch_dims"), "batch_dims"), indices.shape[-1]
    extents, steps = x.shape[batch : batch + length], contiguous(x.shape)[batch : batch + length]
    inner, tuples = math.prod(x.shape[batch + length :]), math.prod(indices.shape[batch:-1])
    source = rendered("gather_nd.comp.j2", word=glsl_bits(x.dtype), length=length, **index_values(indices, 1))
    parameters = (count, inner, tuples, math.prod(x.shape[batch:]), *extents, *steps)
    return Shader(source, parameters, count, fault=out_of_range(call.op, indices, *extents))


@kernel("one_hot")
def one_hot(call: OpCall) -> Shader:
    """``on`` where the place along the axis is the index, or the index counted from the end."""
    indices, output = needed(call.inputs), call.outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(output.shape))
    on, off = (element_bits(output.dtype, hot_value(call.settings, name, output.dtype)) for name in ("on", "off"))
    values = (on & 0xFFFFFFFF, on >> 32, off & 0xFFFFFFFF, off >> 32)
    source = rendered(
        "one_hot.comp.j2",
        word=glsl_bits(output.dtype),
        wide=words(output.dtype) == 2,
        signed=indices.dtype.kind is Kind.SIGNED,
        **index_values(indices, 0),
    )
    parameters = (output.count, output.shape[axis], math.prod(output.shape[axis + 1 :]), *values)
    return Shader(source, parameters, output.count)
