"""Positions of the greatest and least elements along an axis: one thread for each slice."""

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


@kernel("argmax_axis")
def argmax_axis(call: OpCall) -> Shader:
    """Position of the greatest element; an i64 is written as its two words, the lower one first.

    A NaN in first place stays and any other is passed over; with ``nan="propagate"`` a NaN wins.
    """
    return _position(call, "less(best, value)")


@kernel("argmin_axis")
def argmin_axis(call: OpCall) -> Shader:
    """Position of the least element; otherwise as `argmax_axis`."""
    return _position(call, "less(value, best)")


def _position(call: OpCall, better: str) -> Shader:
    x, settings = needed(call.inputs), call.settings
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    source = rendered(
        "position.comp.j2",
        word=glsl_bits(x.dtype),
        better=better,
        floats=x.dtype.is_float,
        propagate=settings.get("nan") == "propagate",
        first=settings.get("select_first", True) is not False,
        **order_values(x.dtype),
    )
    count = call.outputs[0].count
    extent = x.shape[axis]
    return Shader(source, (count, extent, math.prod(x.shape[axis + 1 :]), 0, extent), count, turns=Turns(extent, at=3))
