"""Filling tensors of 64-bit types, which shaders store and do not compute in: their bits are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.scalar_settings import scalar_setting
from openinfer.scalars import encode_bits
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Pass, Shader, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("fill", dtypes=frozenset({"f64", "i64", "u64"}))
def fill(call: OpCall) -> tuple[Pass, ...]:
    """Write the bits of one element over and over."""
    kind = call.outputs[0]
    bits = encode_bits(kind.dtype, scalar_setting(call.settings, "value", kind.dtype))
    return (Pass(fill_shader(bits, kind.count), (), (0,)),)


def fill_shader(bits: int, count: int) -> Shader:
    """Return the kernel that writes so many elements of 64 bits."""
    return Shader(rendered("fill.comp.j2"), (count, bits & 0xFFFFFFFF, bits >> 32), count)
