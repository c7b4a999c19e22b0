"""C source that reads and writes ``.npy`` files, for the programs that targets put around a model."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from openinfer.dtypes import Kind

if TYPE_CHECKING:
    from openinfer.dtypes import DType

HEADER_NAME = "npy.h"


def harness_header() -> str:
    """Return the text of ``npy.h``: C99, functions ``static inline``, no heap."""
    return (resources.files("openinfer.synth") / "harness" / HEADER_NAME).read_text(encoding="ascii")


def npy_descr(dtype: DType) -> str:
    """Return NumPy's name of a byte-sized element type in little-endian files."""
    letters = {Kind.FLOAT: "f", Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.BITSET: "u"}
    letter = "b" if dtype.kind is Kind.BOOL else letters[dtype.kind]
    return f"{'<' if dtype.bits > 8 else '|'}{letter}{dtype.bits // 8}"
