"""Margins, and images of other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ops.catalog.padding import pad_value
from openinfer.ops.catalog.resizing import nearest, neighbours
from openinfer.ops.margins import margins
from openinfer.ops.shapes import needed
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.functions import Functions
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.shaders import Shader, rendered
from openinfer_backend_vulkan.tables import table_copy
from openinfer_backend_vulkan.words import element_bits

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("pad")
def pad(call: OpCall) -> Shader:
    """Each element from its place in x, or the value where it has none."""
    x, mode = needed(call.inputs), str(call.settings.get("mode"))
    places = [[m.source(place, mode) for place in range(m.extent)] for m in margins(x.shape, call.settings)]
    bits = element_bits(x.dtype, pad_value(call.settings, x.dtype)) if mode == "constant" else 0
    return table_copy(x, call.outputs[0], places, bits)


def _takes_nearest(call: OpCall) -> bool:
    return call.settings.get("mode") == "nearest"


@kernel("resize2d", supports=_takes_nearest)
def resized(call: OpCall) -> Shader:
    """The element at floor(place * in / out) of each dim."""
    x, output = needed(call.inputs), call.outputs[0]
    places = [nearest(size, result) for size, result in zip(x.shape, output.shape, strict=True)]
    return table_copy(x, output, places)


def _mixes(call: OpCall) -> bool:
    return call.settings.get("mode") == "linear"


@kernel("resize2d", dtypes=COMPUTED, supports=_mixes)
def mixed(call: OpCall) -> Shader:
    """The mixture of the four elements around a place, rows first; the host finds them and their shares."""
    x, output = needed(call.inputs), call.outputs[0]
    functions = Functions(F32)
    functions.load(0, x.dtype)
    functions.store(tree.cast(tree.Input(0, F32), x.dtype))
    source = rendered("mix.comp.j2", word=glsl_word(x.dtype), functions=functions)
    sides = zip(x.shape[2:], output.shape[2:], strict=True)
    table = (
        word
        for size, result in sides
        for low, high, share in neighbours(size, result)
        for word in (low, high, element_bits(F32, share))
    )
    return Shader(source, (output.count, *x.shape[2:], *output.shape[2:], *table), output.count)
