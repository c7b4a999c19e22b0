"""What shaders ask of a driver's floating-point arithmetic: that NaN, infinities, signed zeros and subnormals are kept.

Without asking, a driver may take subnormals for zero, and a comparison with NaN for its opposite. The modes are those
of the extension ``SPV_KHR_float_controls``; they are written into SPIR-V after compilation, since GLSL has no words for
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer_backend_vulkan.spirv.module import (
    HEADER_WORDS,
    code_of,
    instruction,
    instructions,
    opcode,
    text_words,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

EXTENSION = "VK_KHR_shader_float_controls"
"""The device extension that lets shaders use the modes."""

_SPIRV_EXTENSION = "SPV_KHR_float_controls"
_OP_EXTENSION, _OP_ENTRY_POINT, _OP_EXECUTION_MODE, _OP_CAPABILITY = 10, 15, 16, 17
_OP_EXTENDED, _UNPACK_HALVES = 12, 62
_FLOAT64 = 10


@dataclass(frozen=True, slots=True)
class FloatMode:
    """An execution mode.

    Attributes:
        property: the property of a device that has it (of ``VkPhysicalDeviceFloatControlsProperties``).
        capability, mode: its numbers in SPIR-V.
        bits: width of the floats that it is for.
    """

    property: str
    capability: int
    mode: int
    bits: int


KEEPS_SUBNORMALS = FloatMode("shaderDenormPreserveFloat32", 4464, 4459, 32)
"""Without this mode, shaders may take subnormals of f32 for zero."""

KEEPS_HALVES = FloatMode("shaderDenormPreserveFloat16", 4464, 4459, 16)
"""Without this mode, ``unpackHalf2x16`` may take subnormals of f16 for zero."""

MODES = (
    FloatMode("shaderSignedZeroInfNanPreserveFloat32", 4466, 4461, 32),
    FloatMode("shaderSignedZeroInfNanPreserveFloat64", 4466, 4461, 64),
    KEEPS_HALVES,
    KEEPS_SUBNORMALS,
    FloatMode("shaderDenormPreserveFloat64", 4464, 4459, 64),
)
"""Every mode that is requested where a device has it."""


def with_modes(code: bytes, modes: Sequence[FloatMode]) -> bytes:
    """Return a SPIR-V module (little endian, one entry point) that asks for modes; for 16 and 64 bits
    only if it has such floats."""
    words = words_of(code)
    parts = list(instructions(words))
    wide = any(opcode(part) == _OP_CAPABILITY and part[1] == _FLOAT64 for part in parts)
    halves = any(opcode(part) == _OP_EXTENDED and part[4] == _UNPACK_HALVES for part in parts)
    has = {16: halves, 32: True, 64: wide}
    wanted = [mode for mode in modes if has[mode.bits]]
    if not wanted:
        return code
    entry = next(part[2] for part in parts if opcode(part) == _OP_ENTRY_POINT)
    capabilities = [instruction(_OP_CAPABILITY, number) for number in dict.fromkeys(m.capability for m in wanted)]
    named = instruction(_OP_EXTENSION, *text_words(_SPIRV_EXTENSION))
    asked = [instruction(_OP_EXECUTION_MODE, entry, mode.mode, mode.bits) for mode in wanted]
    head = _count(parts, _OP_CAPABILITY)
    body = _last(parts, _OP_ENTRY_POINT) + 1
    ordered = [*parts[:head], *capabilities, named, *parts[head:body], *asked, *parts[body:]]
    return code_of(words[:HEADER_WORDS], ordered)


def _count(parts: Sequence[tuple[int, ...]], op: int) -> int:
    """Return how many instructions at the begin are of one kind."""
    return next((n for n, part in enumerate(parts) if opcode(part) != op), len(parts))


def _last(parts: Sequence[tuple[int, ...]], op: int) -> int:
    return max(n for n, part in enumerate(parts) if opcode(part) == op)
