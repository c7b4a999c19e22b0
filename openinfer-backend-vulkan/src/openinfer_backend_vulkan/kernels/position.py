"""Positions of the greatest and least elements along an axis: one thread for each slice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ops.shapes import axis_of, integer, needed
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall

_DTYPES = frozenset({"f32", "i32", "u32"})


@kernel("argmax_axis", dtypes=_DTYPES)
def argmax_axis(call: OpCall) -> Shader:
    """Position of the greatest element; an i64 is written as its two words, the lower one first.

    A NaN in first place stays and any other is passed over; with ``nan="propagate"`` a NaN wins.
    """
    return _position(call, ">")


@kernel("argmin_axis", dtypes=_DTYPES)
def argmin_axis(call: OpCall) -> Shader:
    """Position of the least element; otherwise as `argmax_axis`."""
    return _position(call, "<")


def _position(call: OpCall, better: str) -> Shader:
    x, settings = needed(call.inputs), call.settings
    axis = axis_of(integer(settings.get("axis"), "axis"), len(x.shape))
    first = settings.get("select_first", True) is not False
    source = rendered(
        "position.comp.j2",
        word=glsl_word(x.dtype),
        comparison=better if first else f"{better}=",
        propagate=x.dtype.is_float and settings.get("nan") == "propagate",
        first=first,
    )
    count = call.outputs[0].count
    extent = x.shape[axis]
    return Shader(source, (count, extent, math.prod(x.shape[axis + 1 :]), 0, extent), count, turns=Turns(extent, at=3))
