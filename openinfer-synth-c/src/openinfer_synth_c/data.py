"""Weights as C initialisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.expr.c_renderer import literal_text, literal_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.values import PackedWeight

ITEMS_A_LINE = 8


def initialiser_lines(weight: PackedWeight) -> tuple[str, ...]:
    """Return the items of a weight as lines of an initialiser; data of zero bits only are one zero."""
    if not any(weight.data):
        return (literal_text(weight.type.dtype, 0),)
    return tuple(_lines(_item_texts(weight)))


def _item_texts(weight: PackedWeight) -> list[str]:
    """Return the items as constants: of low floats and packed types the bits as they are."""
    dtype = weight.type.dtype
    if dtype.is_packed or dtype.is_low_float:
        digits = max(dtype.bits // 4, 2)
        bits: list[int] = np.frombuffer(weight.data, f"<u{digits // 2}").tolist()
        return [f"0x{each:0{digits}x}" for each in bits]
    elements: list[Any] = np.frombuffer(weight.data, storage_dtype(dtype).newbyteorder("<")).tolist()
    if dtype.is_float:
        return literal_texts(dtype, elements)
    return [literal_text(dtype, element) for element in elements]


def _lines(texts: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(texts), ITEMS_A_LINE):
        yield f"{', '.join(texts[start : start + ITEMS_A_LINE])},"
