"""C source that reads and writes ``.npy`` files, for the programs that targets put around a model."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from openinfer.dtypes import BF16, F8, Kind

if TYPE_CHECKING:
    from openinfer.dtypes import DType

HEADER_NAME = "npy.h"


def harness_header() -> str:
    """Return the text of ``npy.h``: C99, functions ``static inline``, no heap."""
    return (resources.files("openinfer.synth") / "harness" / HEADER_NAME).read_text(encoding="ascii")


def npy_descr(dtype: DType) -> str:
    """Return NumPy's name of an item of an element type in little-endian files.

    Files know neither f8 nor bf16, whose bits are unsigned integers there, nor packed types, which are their bytes.
    """
    if dtype.is_packed or dtype in (F8, BF16):
        return f"{'<' if dtype.bits > 8 else '|'}u{max(dtype.bits // 8, 1)}"
    letters = {Kind.FLOAT: "f", Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.BITSET: "u"}
    letter = "b" if dtype.kind is Kind.BOOL else letters[dtype.kind]
    return f"{'<' if dtype.bits > 8 else '|'}{letter}{dtype.bits // 8}"
