"""Copies of a tensor with updates: one thread for each element, which meets the updates for it in their order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr import tree
from openinfer.ops.elementwise import work_type
from openinfer.ops.shapes import axis_of, integer, needed
from openinfer.ops.strides import contiguous
from openinfer_backend_vulkan.buffers import glsl_bits, glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.indices import index_values, out_of_range
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall

_COMBINED = {"add": tree.add, "mul": tree.mul, "max": tree.maximum, "min": tree.minimum}
_OF_TRUTHS = {"add": tree.logical_or, "mul": tree.logical_and, "max": tree.logical_or, "min": tree.logical_and}


def _can_meet(call: OpCall) -> bool:
    """Return whether updates replace elements, or meet them in a type that shaders compute in."""
    return call.settings.get("reduction") == "none" or needed(call.inputs).dtype.name in COMPUTED


@kernel("scatter", supports=_can_meet)
def scatter(call: OpCall) -> Shader:
    """Updates with another place along an axis."""
    x, indices = needed(call.inputs), needed(call.inputs, 1)
    rank = len(x.shape)
    axis = axis_of(integer(call.settings.get("axis"), "axis"), rank)
    source = _rendered(call, "scatter.comp.j2", rank=rank, axis=axis)
    count = indices.shape[axis]
    shapes = (*x.shape, *indices.shape, *contiguous(indices.shape))
    return _shader(call, source, shapes, count, 1, x.shape[axis])


@kernel("scatter_nd", supports=_can_meet)
def scatter_nd(call: OpCall) -> Shader:
    """Slices at tuples of places."""
    x, indices = needed(call.inputs), needed(call.inputs, 1)
    length = indices.shape[-1]
    source = _rendered(call, "scatter_nd.comp.j2", length=length)
    inner, named = math.prod(x.shape[length:]), x.shape[:length]
    return _shader(call, source, (inner, *named), math.prod(indices.shape[:-1]), length + 1, *named)


def _shader(call: OpCall, source: str, own: tuple[int, ...], updates: int, each: int, *extents: int) -> Shader:
    """Return the shader, which walks so many updates; its own parameters begin at 4."""
    output, indices = call.outputs[0], needed(call.inputs, 1)
    return Shader(
        source,
        (output.count, updates, 0, updates, *own),
        output.count,
        turns=Turns(updates, each, at=2),
        scratch_nbytes=4 * max(output.count, 1),
        faults=(out_of_range(call.op, indices, *extents),),
    )


def _rendered(call: OpCall, template: str, **more: object) -> str:
    x, reduction = needed(call.inputs), str(call.settings.get("reduction"))
    replaces = reduction == "none"
    functions = None if replaces else _functions(x.dtype, reduction)
    return rendered(
        template,
        word=glsl_bits(x.dtype) if replaces else glsl_word(x.dtype),
        functions=functions,
        **index_values(needed(call.inputs, 1), 1),
        **more,
    )


def _functions(dtype: DType, reduction: str) -> Functions:
    work = work_type(dtype)
    functions = Functions(work)
    for number in (0, 2):
        functions.load(number, dtype)
    combine = (_OF_TRUTHS if dtype is BOOL else _COMBINED)[reduction]
    functions.add("met", combine(tree.Input(0, work), tree.Input(1, work)), work, work)
    functions.store(tree.cast(tree.Input(0, work), dtype))
    return functions
