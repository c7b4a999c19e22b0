"""Running sums along an axis: one thread for each slice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.ops.elementwise import work_type
from openinfer.ops.shapes import axis_of, integer, needed
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("cumsum", dtypes=COMPUTED)
def cumsum(call: OpCall) -> Shader:
    """Running sums along an axis, from its end with ``reverse``; low floats are summed in f32."""
    x, settings = needed(call.inputs), call.settings
    axis = axis_of(integer(settings["axis"], "axis"), len(x.shape))
    extent, work = x.shape[axis], work_type(x.dtype)
    functions = Functions(work)
    functions.load(0, x.dtype)
    functions.store(tree.cast(tree.Input(0, work), x.dtype))
    functions.sums()
    source = rendered(
        "cumsum.comp.j2",
        word=glsl_word(x.dtype),
        functions=functions,
        reverse=bool(settings.get("reverse")),
        exclusive=bool(settings.get("exclusive")),
    )
    slices = x.count // extent if extent else 0
    parameters = (slices, extent, math.prod(x.shape[axis + 1 :]), 0, extent)
    return Shader(source, parameters, slices, turns=Turns(extent, at=3), scratch_nbytes=4 * max(slices, 1))
