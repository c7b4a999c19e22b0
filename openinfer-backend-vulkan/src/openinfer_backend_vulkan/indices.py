"""Index inputs: how kernels read the places that they name, and what is said of those that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import Kind
from openinfer_backend_vulkan.buffers import glsl_bits, words
from openinfer_backend_vulkan.shaders import Fault

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType


def index_values(indices: TensorType, number: int, *, negative: bool = True) -> dict[str, object]:
    """Return what ``indices.glsl`` is rendered with for an index input that is input ``number`` of the kernel."""
    signed = indices.dtype.kind is Kind.SIGNED
    return {
        "index_word": glsl_bits(indices.dtype),
        "index_source": f"source{number}",
        "index_wide": words(indices.dtype) == 2,
        "index_signed": signed,
        "index_negative": signed and negative,
    }


def out_of_range(op: str, indices: TensorType, *extents: int, negative: bool = True) -> Fault:
    """Return what is said of an index into one of the extents that is no place of it."""
    signed = negative and indices.dtype.kind is Kind.SIGNED
    legal = [f"{-extent if signed else 0}..{extent - 1}" if extent else "none" for extent in dict.fromkeys(extents)]
    return Fault(f"{op}: {indices}", indices.shape, "the index{at} is out of range", f"legal: {' or '.join(legal)}")
