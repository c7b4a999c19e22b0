"""Weights as C initialisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.expr.c_renderer import literal_text
from openinfer.model import storage_dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.plan.values import PackedWeight

ELEMENTS_A_LINE = 8


def initialiser_lines(weight: PackedWeight) -> tuple[str, ...]:
    """Return the elements of a weight as lines of an initialiser; data of zero bits only are one zero."""
    if not any(weight.data):
        return (literal_text(weight.type.dtype, 0),)
    return tuple(_lines(weight))


def _lines(weight: PackedWeight) -> Iterator[str]:
    dtype = weight.type.dtype
    elements: list[Any] = np.frombuffer(weight.data, storage_dtype(dtype).newbyteorder("<")).tolist()
    for start in range(0, len(elements), ELEMENTS_A_LINE):
        texts = (literal_text(dtype, element) for element in elements[start : start + ELEMENTS_A_LINE])
        yield f"{', '.join(texts)},"
