"""The tensors of a computation: where they lie, and their buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.layout import row_major
from openinfer.loops import Buffer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute import Computation
    from openinfer.layout import Layout


def layouts_of(computation: Computation, layouts: Mapping[str, Layout] | None) -> dict[str, Layout]:
    """Return the layouts of all tensors, by name: those that are not among ``layouts`` lie in row-major order."""
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    return {tensor.name: row_major(tensor.shape) for tensor in tensors} | dict(layouts or {})


def buffers_of(computation: Computation, layouts: Mapping[str, Layout]) -> dict[str, Buffer]:
    """Return the buffers of all tensors, by name, with room for their layouts."""
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    return {tensor.name: Buffer(tensor.name, tensor.dtype, layouts[tensor.name].size) for tensor in tensors}
