"""Copies of elements from places that tables name: one table for each dim of the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.strides import contiguous
from openinfer_backend_vulkan.buffers import glsl_bits, words
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.types import TensorType

NOWHERE = 0xFFFFFFFF
"""The entry of a table for places of the result that stand for no element."""


def table_copy(x: TensorType, output: TensorType, places: Sequence[Sequence[int | None]], bits: int = 0) -> Shader:
    """Return the kernel that reads, for each position of the output, the element of ``x`` at ``places`` of its dims.

    Where a dim has None for a place, the element is the one whose bits are given.
    """
    steps = contiguous(x.shape)
    tables = [
        [NOWHERE if place is None else place * step for place in table]
        for table, step in zip(places, steps, strict=True)
    ]
    source = rendered(
        "tables.comp.j2", word=glsl_bits(x.dtype), wide=words(x.dtype) == 2, rank=len(tables), nowhere=NOWHERE
    )
    entries = (entry for table in tables for entry in table)
    parameters = (output.count, bits & 0xFFFFFFFF, bits >> 32, *output.shape, *entries)
    return Shader(source, parameters, output.count)
