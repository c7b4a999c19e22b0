"""Elementwise expressions over large arrays block by block, so that values between functions stay in the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.bound_calls import in_order
from openinfer.expr.numpy_renderer import bind_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.expr.linear import Program
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

BLOCK = 1 << 16
"""Elements of a block, at least."""

MOST = 256
"""Maximum number of blocks of an array: each is bound separately."""


def bind_blocks(program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> BoundCall | None:
    """Return a call that evaluates a program block by block, or None where that gains nothing or cannot be done.

    It is no gain for a single function; it cannot be done where inputs are broadcast (scalars apart) or not contiguous.
    """
    used = [array for number in program.inputs if (array := inputs[number]) is not None]
    functions = [step for step in program.instructions if step.operands]
    if out.size < 2 * BLOCK or len(functions) < 2 or not all(_fits(array, out) for array in (*used, out)):
        return None
    length = max(BLOCK, -(-out.size // MOST))
    calls: list[BoundCall] = []
    mark = workspace.mark()
    for first in range(0, out.size, length):
        workspace.release(mark)
        piece = [None if array is None else _piece(array, out, first, length) for array in inputs]
        calls.append(bind_program(program, piece, out.reshape(-1)[first : first + length], workspace.take))
    return in_order(calls)


def _fits(array: Array, out: Array) -> bool:
    return array.ndim == 0 or (array.shape == out.shape and array.flags.c_contiguous)


def _piece(array: Array, out: Array, first: int, length: int) -> Array:
    return array.reshape(-1)[first : first + length] if array.shape == out.shape else array
