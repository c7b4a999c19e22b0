"""Steps that may write where they read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.compute.in_place import overwritable
from openinfer.loops import Bind, For, If
from openinfer.plan.accesses import operand_reads
from openinfer.plan.overlap import DEPTH, NEVER, accesses
from openinfer.plan.programs import loop_program
from openinfer.plan.steps import ComputeStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.affine import Var
    from openinfer.loops import Kernel, Statement
    from openinfer.plan.steps import Step

MOST_ACCESSES = 1 << 20
"""Loads and stores whose order is found out one by one."""


def overwritten(step: Step, output: int) -> int:
    """Return the values (as bits) that a step reads and may overwrite, element by element, with its result."""
    if not isinstance(step, ComputeStep) or output not in step.outputs:
        return 0
    name = step.computation.outputs[step.outputs.index(output)].name
    layouts = dict(step.arrangement.layouts)
    tensors = {t for t in overwritable(step.computation, name) if layouts.get(t) == layouts.get(name)}
    if step.arrangement.fusion:
        tensors |= _kept(step, name)
    free = kept = 0
    for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True):
        if tensor.name in tensors and isinstance(operand, ValueRef):
            free |= operand_reads(operand)
        else:
            kept |= operand_reads(operand)
    return free & ~kept


def _kept(step: ComputeStep, output: str) -> set[str]:
    """Return the inputs of which a step has a copy of what it needs when its result is stored over them."""
    kernel = loop_program(step)
    sizes = {buffer.name: buffer.size * buffer.dtype.bits for buffer in kernel.buffers}
    alike = [tensor.name for tensor in step.computation.inputs if sizes.get(tensor.name) == sizes[output]]
    if step.computation.tensor(output).dtype.is_packed:
        return set()
    return {name for name in alike if is_read_before_written(kernel, output, name)}


@lru_cache(maxsize=1024)
def is_read_before_written(kernel: Kernel, output: str, operand: str) -> bool:
    """Return whether each byte of an operand is read for the last time before that of a result is written.

    What one iteration of two nested loops does may happen in any order. False: it is not so, or not known.
    """
    itemsizes = {buffer.name: max(buffer.dtype.bits // 8, 1) for buffer in kernel.buffers}
    size = next(buffer.size.constant for buffer in kernel.buffers if buffer.name == output) or 0
    if size > MOST_ACCESSES:
        # It has more elements than are followed: no table of their bytes is made.
        return False
    size *= itemsizes[output]
    stored, loaded = np.full(size, NEVER, np.int64), np.full(size, -1, np.int64)
    count = 0
    for access in _accesses_of(kernel.body, DEPTH):
        if access.buffer != (output if access.is_store else operand):
            continue
        count += prod(var.extent if isinstance(var.extent, int) else MOST_ACCESSES for var in access.loops)
        places = _values(access.address, access.loops) if count < MOST_ACCESSES else None
        turns = None if places is None else _values(access.turn, access.loops)
        if places is None or turns is None:
            return False
        itemsize = itemsizes[access.buffer]
        # What lies outside is not accessed: a guard is before it.
        inside = (places >= 0) & (places < size // itemsize)
        places, turns = places[inside] * itemsize, turns[inside]
        for byte in range(itemsize):
            if access.is_store:
                np.minimum.at(stored, places + byte, turns)
            else:
                np.maximum.at(loaded, places + byte, turns)
    return bool((loaded < stored).all())


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or a store.

    Attributes:
        turn: number of the iteration of outer loops, or of the statement between them, in the order of the program.
        loops: variables of all loops around it.
    """

    buffer: str
    address: Index
    is_store: bool
    turn: Index
    loops: tuple[Var, ...]


def _accesses_of(body: Sequence[Statement], depth: int) -> Iterator[_Access]:
    begin = 0
    for statement in body:
        yield from _accesses_in(statement, depth, Index.of(begin), ())
        begin += _turns(statement, depth)


def _accesses_in(statement: Statement, depth: int, begin: Index, around: tuple[Var, ...]) -> Iterator[_Access]:
    """Yield the accesses of a statement whose first turn is ``begin``."""
    if not isinstance(statement, For | If):
        yield from (_Access(*access, begin, around) for access in accesses((statement,)))
        return
    loops = (*around, statement.var) if isinstance(statement, For) else around
    is_opened = _is_opened(statement, depth)
    if is_opened and isinstance(statement, For):
        begin = begin + statement.var * sum(_turns(inner, depth - 1) for inner in statement.body)
    for inner in statement.body:
        yield from _accesses_in(inner, depth - 1 if is_opened else 0, begin, loops)
        begin = begin + (_turns(inner, depth - 1) if is_opened else 0)


def _turns(statement: Statement, depth: int) -> int:
    """Return how many turns a statement has."""
    if not isinstance(statement, For) or not _is_opened(statement, depth):
        return 1
    return _trips(statement.var) * sum(_turns(inner, depth - 1) for inner in statement.body)


def _is_opened(statement: For | If, depth: int) -> bool:
    """Whether the iterations of a statement have turns of their own."""
    return isinstance(statement, For) and statement.bind is Bind.SERIAL and depth > 0


def _trips(var: Var) -> int:
    return var.extent if isinstance(var.extent, int) else 1


def _values(index: Index, loops: Sequence[Var]) -> npt.NDArray[np.int64] | None:
    """Return the values of an index in all iterations of loops; None: they are not known, or no multiples of them."""
    slopes = [index.coefficient(var) for var in loops]
    rest = index.substituted({var: Index() for var in loops})
    if rest.constant is None or any(slope is None for slope in slopes):
        return None
    places = np.full(1, rest.constant, np.int64)
    for var, slope in zip(loops, slopes, strict=True):
        steps = np.arange(_trips(var), dtype=np.int64) * (slope or 0)
        places = (places[:, None] + steps).ravel()
    return places
