"""Compiled kernels as C headers, as `glslangValidator --vn` writes them."""

from __future__ import annotations

from struct import unpack

_WORDS_A_LINE = 8


def header_of(code: bytes, name: str) -> str:
    """Return the header of a SPIR-V module: an array of its words."""
    words = [f"0x{word:08x}" for word in unpack(f"<{len(code) // 4}I", code)]
    lines = [f"    {', '.join(words[at : at + _WORDS_A_LINE])}," for at in range(0, len(words), _WORDS_A_LINE)]
    return "\n".join((f"static const uint32_t {name}[] = {{", *lines, "};", ""))
