"""Elements in order: one thread for each element, which counts those of its slice that come before it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ops.shapes import axis_of, integer, needed
from openinfer_backend_vulkan.buffers import glsl_bits
from openinfer_backend_vulkan.order import order_values
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("topk")
def topk(call: OpCall) -> Shader:
    """The first elements in order and their indices."""
    kept = integer(call.settings["k"], "k")
    return _sorted(
        call, kept, descending=bool(call.settings.get("largest")), values=True, indices=len(call.outputs) > 1
    )


@kernel("argsort")
def argsort(call: OpCall) -> Shader:
    """Indices of the elements in order."""
    return _sorted(call, None, descending=bool(call.settings.get("descending")), values=False, indices=True)


def _sorted(call: OpCall, kept: int | None, *, descending: bool, values: bool, indices: bool) -> Shader:
    x = needed(call.inputs)
    axis = axis_of(integer(call.settings["axis"], "axis"), len(x.shape))
    extent = x.shape[axis]
    source = rendered(
        "rank.comp.j2",
        word=glsl_bits(x.dtype),
        before="less({1}, {0})" if descending else "less({0}, {1})",
        values=values,
        indices=indices,
        **order_values(x.dtype),
    )
    most = extent if kept is None else kept
    threads = x.count if most else 0
    parameters = (x.count, extent, math.prod(x.shape[axis + 1 :]), most, 0, extent)
    return Shader(source, parameters, threads, turns=Turns(extent, at=4), scratch_nbytes=4 * x.count)
