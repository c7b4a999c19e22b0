"""Elementwise expressions over types with few values as tables, evaluated once from the expression itself.

An operand of 8 or 16 bits, or two of 8, can only be 256 or 65,536 things: looking the result up takes less time than
widening, computing and rounding. Every entry is what the expression yields, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.expr.numpy_renderer import compile_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.expr.linear import Program
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

PIECE = 1 << 14
"""Elements that are looked up at a time: NumPy widens indices to 8 bytes, which then stay in the cache."""

FEWEST = {8: 1 << 10, 16: 1 << 15}
"""Elements from which a table of 8-bit or 16-bit codes is worth evaluating."""

CALLS = {"float8_e5m2": 1, "float16": 1, "bfloat16": 3}
"""Functions (conversions too) that an expression over a type has at most for computing to be as quick as looking up.

bf16 is widened by a shift, the others by NumPy's scalar conversions.
"""


@dataclass(frozen=True, slots=True)
class _Tabulated:
    """What a table depends on; programs themselves compare equal where literals are zeros of other sign."""

    text: str
    codes: int
    program: Program = field(compare=False)
    kinds: tuple[np.dtype[Any], ...] = field(compare=False)
    out: np.dtype[Any] = field(compare=False)


def bind_table(program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> BoundCall | None:
    """Return a call that looks results up, or None where computing is as good."""
    operands = [inputs[number] for number in program.inputs]
    given = [array for array in operands if array is not None and _flat(array, out)]
    bits = 8 * sum(array.itemsize for array in given)
    if len(given) != len(operands) or bits not in FEWEST or out.size < FEWEST[bits] or not _flat(out, out):
        return None
    computed = [step for step in program.instructions if step.operands]
    if any(len(computed) <= CALLS.get(array.dtype.name, len(computed)) for array in given):
        return None
    kinds = tuple(array.dtype for array in given)
    table = _table(_Tabulated(repr(program), bits, program, kinds, out.dtype))
    return _looked_up(table, [array.reshape(-1) for array in given], out.reshape(-1), workspace)


def _flat(array: Array, out: Array) -> bool:
    return array.shape == out.shape and array.flags.c_contiguous


def _looked_up(table: Array, given: Sequence[Array], out: Array, workspace: Workspace) -> BoundCall:
    codes = [array.view(f"u{array.itemsize}") for array in given]
    pairs = workspace.take((min(PIECE, out.size), 2), np.dtype(np.uint8)) if len(codes) == 2 else None

    def run() -> None:
        for first in range(0, out.size, PIECE):
            target = out[first : first + PIECE]
            chosen = codes[0][first : first + PIECE]
            if pairs is not None:
                both = pairs[: len(target)]
                both[:, 0], both[:, 1] = chosen, codes[1][first : first + PIECE]
                chosen = both.view("<u2").reshape(-1)
            table.take(chosen, out=target, mode="clip")

    return run


@lru_cache(maxsize=64)
def _table(wanted: _Tabulated) -> Array:
    """Return the results for all codes; of two operands the second has the higher byte."""
    count = 1 << wanted.codes
    codes = np.arange(count, dtype=f"u{wanted.codes // 8}")
    split = [codes] if len(wanted.kinds) == 1 else [codes.astype(np.uint8), (codes >> 8).astype(np.uint8)]
    numbers = wanted.program.inputs
    inputs: list[Array | None] = [None] * (max(numbers) + 1)
    for number, code, kind in zip(numbers, split, wanted.kinds, strict=True):
        inputs[number] = code.view(kind)
    table = np.empty(count, wanted.out)
    compile_program(wanted.program)(inputs, table)
    table.flags.writeable = False
    return table
