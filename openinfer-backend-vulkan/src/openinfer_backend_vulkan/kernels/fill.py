"""Filling tensors of types that shaders store and do not compute in: their bits are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.scalar_settings import scalar_setting
from openinfer.scalars import encode_bits
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall


@kernel("fill", dtypes=frozenset({"f8", "bf16", "f16", "f64", "i64", "u64", "bitset"}))
def fill(call: OpCall) -> Shader:
    """Write the bits of one element over and over; an element is 1, 2 or 8 bytes, so two words hold whole ones."""
    kind = call.outputs[0]
    bits = encode_bits(kind.dtype, scalar_setting(call.settings, "value", kind.dtype))
    pattern = bits.to_bytes(kind.dtype.bits // 8, "little") * (64 // kind.dtype.bits)
    low, high = (int.from_bytes(pattern[at : at + 4], "little") for at in (0, 4))
    words = -(-kind.nbytes // 4)
    return Shader(rendered("fill.comp.j2"), (words, low, high), words)
