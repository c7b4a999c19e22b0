"""Expressions on NumPy arrays: a program is compiled to a flat list of calls that write to arrays that exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.array_types import storage_dtype
from openinfer.expr.numpy_functions import Routine, Run, literal_array, routine
from openinfer.expr.tree import ExprError

if TYPE_CHECKING:
    from openinfer.expr.linear import Instruction, Program

Array: TypeAlias = npt.NDArray[Any]
Evaluate: TypeAlias = Callable[[Sequence[Array | None], Array], None]


def compile_program(program: Program) -> Evaluate:
    """Return a function ``evaluate(inputs, out)`` that writes the value of the program to ``out``.

    ``inputs[i]`` stands for ``Input(i)`` (None where the program does not read it): arrays in storage types, packed
    types unpacked to one byte an element, broadcast against each other to the shape of ``out``. ``out`` may be one of
    the inputs. Temporaries are kept for the next call with the same shapes, so such a call allocates no array; a
    function returned is used by one thread at a time.

    Raises:
        ExprError: from here when a function is not defined on its types, from the function returned when an input has
            another type than the program's, or the shapes do not broadcast to that of ``out``.
    """
    routines = tuple(_routine(program, instruction) for instruction in program.instructions)
    numbers = program.inputs
    known: dict[tuple[tuple[int, ...], ...], _Bound] = {}

    def evaluate(inputs: Sequence[Array | None], out: Array) -> None:
        given = [_given(inputs, number) for number in numbers]
        key = (out.shape, *(array.shape for array in given))
        bound = known.get(key)
        if bound is None:
            known.clear()
            bound = known[key] = _bind(program, routines, dict(zip(numbers, given, strict=True)), out)
        bound.run(inputs, out)

    return evaluate


def _routine(program: Program, instruction: Instruction) -> Routine | None:
    if instruction.function in ("input", "literal"):
        return None
    operands = [program.instructions[number].dtype for number in instruction.operands]
    return routine(instruction.function, operands, instruction.dtype)


def _given(inputs: Sequence[Array | None], number: int) -> Array:
    array = inputs[number] if number < len(inputs) else None
    if array is None:
        raise ExprError(f"the expression reads input {number}, which was not given")
    return array


@dataclass(frozen=True, slots=True)
class _Call:
    run: Run
    target: int
    scratch: tuple[Array, ...]
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Bound:
    """A program with its temporaries. ``arrays`` has one entry per instruction; None is filled in for each run."""

    arrays: tuple[Array | None, ...]
    reads: tuple[tuple[int, int], ...]
    calls: tuple[_Call, ...]
    writes_out: bool

    def run(self, inputs: Sequence[Array | None], out: Array) -> None:
        arrays: list[Any] = list(self.arrays)
        for place, number in self.reads:
            arrays[place] = inputs[number]
        if self.writes_out:
            arrays[-1] = out
        with np.errstate(all="ignore"):
            for call in self.calls:
                call.run(arrays[call.target], call.scratch, *[arrays[place] for place in call.operands])
            if not self.writes_out:
                np.copyto(out, arrays[-1])


class _Pool:
    """Arrays that are free to be used again."""

    def __init__(self) -> None:
        self._free: dict[tuple[np.dtype[Any], tuple[int, ...]], list[Array]] = {}

    def take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        free = self._free.get((dtype, shape))
        return free.pop() if free else np.empty(shape, dtype)

    def give(self, array: Array) -> None:
        self._free.setdefault((array.dtype, array.shape), []).append(array)


def _bind(program: Program, routines: Sequence[Routine | None], given: dict[int, Array], out: Array) -> _Bound:
    instructions = program.instructions
    shapes = _shapes(program, given, out)
    last_uses = {place: number for number, step in enumerate(instructions) for place in step.operands}
    pool = _Pool()
    arrays: list[Array | None] = [None] * len(instructions)
    reads: list[tuple[int, int]] = []
    calls: list[_Call] = []
    for number, (step, chosen) in enumerate(zip(instructions, routines, strict=True)):
        if step.value is not None:
            arrays[number] = literal_array(step.value, step.dtype)
        elif chosen is None:
            reads.append((number, step.index))
        else:
            if number + 1 < len(instructions) or not chosen.atomic:
                arrays[number] = pool.take(storage_dtype(step.dtype), shapes[number])
            scratch = tuple(pool.take(dtype, shapes[number]) for dtype in chosen.scratch)
            calls.append(_Call(chosen.run, number, scratch, step.operands))
            _release(pool, scratch, (arrays[p] for p in set(step.operands) if _is_free(p, number, last_uses, routines)))
    last = routines[-1]
    return _Bound(tuple(arrays), tuple(reads), tuple(calls), last is not None and last.atomic)


def _is_free(place: int, number: int, last_uses: dict[int, int], routines: Sequence[Routine | None]) -> bool:
    return routines[place] is not None and last_uses[place] == number


def _release(pool: _Pool, scratch: Sequence[Array], dead: Any) -> None:
    for array in (*scratch, *dead):
        pool.give(array)


def _shapes(program: Program, given: dict[int, Array], out: Array) -> list[tuple[int, ...]]:
    """Return the shape of each instruction's value, once types and shapes are checked."""
    shapes: list[tuple[int, ...]] = []
    for step in program.instructions:
        if step.function == "input":
            _check_type(f"input {step.index}", given[step.index], storage_dtype(step.dtype))
            shapes.append(given[step.index].shape)
        else:
            shapes.append(_broadcast([shapes[place] for place in step.operands]))
    _check_type("the output", out, storage_dtype(program.instructions[-1].dtype))
    if _broadcast([shapes[-1], out.shape]) != out.shape:
        raise ExprError(f"inputs broadcast to shape {shapes[-1]}, the output has {out.shape}")
    return shapes


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ExprError(f"shapes {', '.join(map(str, shapes))} do not broadcast") from None


def _check_type(what: str, array: Array, expected: np.dtype[Any]) -> None:
    if array.dtype != expected:
        raise ExprError(f"{what} is an array of {array.dtype}, the expression says {expected}")
