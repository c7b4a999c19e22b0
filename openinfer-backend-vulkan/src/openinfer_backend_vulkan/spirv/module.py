"""The words of SPIR-V modules: instructions of a module, and instructions made of operands."""

from __future__ import annotations

from struct import pack, unpack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HEADER_WORDS = 5
BOUND = 3
"""The word of the header that is greater than every id."""


def words_of(code: bytes) -> tuple[int, ...]:
    """Return the words of a module, which is little endian."""
    return unpack(f"<{len(code) // 4}I", code)


def code_of(header: Sequence[int], parts: Iterable[Sequence[int]]) -> bytes:
    """Return a module of a header and instructions."""
    words = [*header, *(word for part in parts for word in part)]
    return pack(f"<{len(words)}I", *words)


def instructions(words: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the instructions of a module, each with the word that holds its length and opcode."""
    at = HEADER_WORDS
    while at < len(words):
        length = max(words[at] >> 16, 1)
        yield tuple(words[at : at + length])
        at += length


def opcode(part: Sequence[int]) -> int:
    """Return the opcode of an instruction."""
    return part[0] & 0xFFFF


def instruction(op: int, *operands: int) -> tuple[int, ...]:
    """Return an instruction."""
    return (len(operands) + 1 << 16 | op, *operands)


def text_words(text: str) -> tuple[int, ...]:
    """Return text as SPIR-V writes it: bytes in words, ended by a zero."""
    data = text.encode() + b"\0"
    data += b"\0" * (-len(data) % 4)
    return unpack(f"<{len(data) // 4}I", data)
