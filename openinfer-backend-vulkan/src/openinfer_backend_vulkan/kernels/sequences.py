"""Evenly spaced numbers: the host makes one for each place of a dim, exactly as the type has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, Kind
from openinfer.ops.catalog.sequences import spacing
from openinfer.ops.shapes import axis_of, integer
from openinfer.scalars import round_to
from openinfer_backend_vulkan.buffers import glsl_bits, words
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Pass, Shader, rendered
from openinfer_backend_vulkan.words import element_bits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.scalars import Scalar


@kernel("range")
def spaced(call: OpCall) -> tuple[Pass, ...]:
    """start + i * step; integers wrap."""
    output = call.outputs[0]
    start, step = spacing(call.settings, output.dtype)
    return _repeated(output, (start + place * step for place in range(output.shape[0])), 1)


@kernel("iota")
def iota(call: OpCall) -> tuple[Pass, ...]:
    """The place along an axis; integers wrap."""
    output = call.outputs[0]
    axis = axis_of(integer(call.settings.get("axis"), "axis"), len(output.shape))
    return _repeated(output, range(output.shape[axis]), math.prod(output.shape[axis + 1 :]))


def _repeated(output: TensorType, numbers: Iterable[float], each: int) -> tuple[Pass, ...]:
    """Return the kernel that writes numbers over and over, each several times in a row."""
    dtype = output.dtype
    bits = [element_bits(dtype, _held(dtype, number)) for number in numbers]
    wide = words(dtype) == 2
    table = [word for element in bits for word in (element & 0xFFFFFFFF, element >> 32)[: words(dtype)]]
    source = rendered("numbers.comp.j2", word=glsl_bits(dtype), wide=wide)
    return (Pass(Shader(source, (output.count, max(len(bits), 1), each, *table), output.count), (), (0,)),)


def _held(dtype: DType, number: float) -> Scalar:
    """Return a number as an element: floats are rounded (low ones by way of f32), integers wrap."""
    if dtype.is_float:
        return round_to(dtype, round_to(F32, float(number)) if dtype.is_low_float else float(number))
    low = int(number) & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.kind is Kind.SIGNED and low > (dtype.maximum or 0) else low
