"""Elementwise expressions bound to arrays: as a table, block by block, or function by function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.expr import numpy_renderer
from openinfer_backend_cpu.blocks import bind_blocks
from openinfer_backend_cpu.tables import bind_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.expr.linear import Program
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


def bind_program(program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> BoundCall:
    """Return a call that writes the value of a program, over broadcast inputs, to ``out``, which may be an input."""
    for otherwise in (bind_table, bind_blocks):
        bound = otherwise(program, inputs, out, workspace)
        if bound is not None:
            return bound
    return numpy_renderer.bind_program(program, inputs, out, workspace.take)
