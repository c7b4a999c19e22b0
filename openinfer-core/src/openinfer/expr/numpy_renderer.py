"""Expressions on NumPy arrays: a program becomes a flat list of calls that write to arrays that exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.expr.numpy_functions import Routine, literal_array, nothing_or, routine
from openinfer.expr.tree import ExprError

if TYPE_CHECKING:
    from openinfer.bound_calls import BoundCall
    from openinfer.expr.linear import Instruction, Program

Array: TypeAlias = npt.NDArray[Any]
Evaluate: TypeAlias = Callable[[Sequence[Array | None], Array], None]
Take: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Array]
"""Returns an array of a shape and type with undefined content."""


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
    routines = _routines(program)
    numbers = program.inputs
    arranged_by_shape: dict[tuple[tuple[int, ...], ...], _Arranged] = {}

    def evaluate(inputs: Sequence[Array | None], out: Array) -> None:
        arrays = [_given(inputs, number) for number in numbers]
        key = (out.shape, *(array.shape for array in arrays))
        arranged = arranged_by_shape.get(key)
        if arranged is None:
            arranged_by_shape.clear()
            by_number = dict(zip(numbers, arrays, strict=True))
            arranged = arranged_by_shape[key] = _arranged(program, routines, by_number, out, np.empty, aliased=True)
        arranged.run(inputs, out)

    return evaluate


def bind_program(program: Program, inputs: Sequence[Array | None], out: Array, take: Take) -> BoundCall:
    """Return a call that writes the value of the program to ``out``, each time from what ``inputs`` then hold.

    ``inputs`` and ``out`` are as in `compile_program`; ``take`` returns temporaries, which the call owns. The caller
    of the call switches NumPy's warnings off.

    Raises:
        ExprError: a function is not defined on its types, an input has another type than the program's, or the shapes
            do not broadcast to that of ``out``.
    """
    arrays = {number: _given(inputs, number) for number in program.inputs}
    aliased = any(array is out for array in arrays.values())
    return _arranged(program, _routines(program), arrays, out, take, aliased=aliased).bound(inputs, out)


def _routines(program: Program) -> tuple[Routine | None, ...]:
    return tuple(_routine(program, step) for step in program.instructions)


def _routine(program: Program, step: Instruction) -> Routine | None:
    if step.function in ("input", "literal"):
        return None
    operands = [program.instructions[operand] for operand in step.operands]
    if step.function == "select" and operands[1].value is not None:
        chosen = literal_array(operands[1].value, step.dtype)
        if not chosen.view(f"u{chosen.itemsize}").any():
            return nothing_or(step.dtype)
    return routine(step.function, [operand.dtype for operand in operands], step.dtype)


def _given(inputs: Sequence[Array | None], number: int) -> Array:
    array = inputs[number] if number < len(inputs) else None
    if array is None:
        raise ExprError(f"the expression reads input {number}, which was not given")
    return array


@dataclass(frozen=True, slots=True)
class _Call:
    routine: Routine
    target: int
    scratch: tuple[Array, ...]
    operands: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Arranged:
    """A program with its temporaries for operands of certain shapes.

    ``arrays`` has one entry per instruction: None for inputs, which ``reads`` lists, and for a result that is written
    straight to the output.
    """

    arrays: tuple[Array | None, ...]
    reads: tuple[tuple[int, int], ...]
    calls: tuple[_Call, ...]
    writes_out: bool

    def run(self, inputs: Sequence[Array | None], out: Array) -> None:
        arrays = self._filled(inputs, out)
        with np.errstate(all="ignore"):
            for call in self.calls:
                call.routine.run(arrays[call.target], call.scratch, *[arrays[operand] for operand in call.operands])
            if not self.writes_out:
                np.copyto(out, arrays[-1])

    def bound(self, inputs: Sequence[Array | None], out: Array) -> BoundCall:
        arrays = self._filled(inputs, out)
        calls: list[BoundCall] = [
            call.routine.bound(arrays[call.target], call.scratch, *[arrays[operand] for operand in call.operands])
            for call in self.calls
        ]
        if not self.writes_out:
            calls.append(partial(np.copyto, out, arrays[-1]))
        return in_order(calls)

    def _filled(self, inputs: Sequence[Array | None], out: Array) -> list[Any]:
        arrays: list[Any] = list(self.arrays)
        for position, number in self.reads:
            arrays[position] = inputs[number]
        if self.writes_out:
            arrays[-1] = out
        return arrays


class _Pool:
    """Arrays that are free to be used again."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._free: dict[tuple[np.dtype[Any], tuple[int, ...]], list[Array]] = {}

    def take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        free = self._free.get((dtype, shape))
        return free.pop() if free else self._take(shape, dtype)

    def give(self, array: Array) -> None:
        self._free.setdefault((array.dtype, array.shape), []).append(array)


def _arranged(
    program: Program,
    routines: Sequence[Routine | None],
    by_number: dict[int, Array],
    out: Array,
    take: Take,
    *,
    aliased: bool,
) -> _Arranged:
    """Choose an array for each value; ``aliased`` says that the output may be an input."""
    instructions = program.instructions
    shapes = _shapes(program, by_number, out)
    last_uses = {operand: number for number, step in enumerate(instructions) for operand in step.operands}
    pool = _Pool(take)
    arrays: list[Array | None] = [None] * len(instructions)
    reads: list[tuple[int, int]] = []
    calls: list[_Call] = []
    for number, (step, chosen) in enumerate(zip(instructions, routines, strict=True)):
        if step.value is not None:
            arrays[number] = literal_array(step.value, step.dtype)
        elif chosen is None:
            reads.append((number, step.index))
        else:
            ending = [p for p in dict.fromkeys(step.operands) if routines[p] is not None and last_uses[p] == number]
            # The result may go where an operand is: one array less in the cache.
            in_place = chosen.atomic and not chosen.scratch
            if in_place:
                _release(pool, arrays, ending)
            is_last = number + 1 == len(instructions)
            if not (is_last and shapes[number] == out.shape and (chosen.atomic or not aliased)):
                arrays[number] = pool.take(storage_dtype(step.dtype), shapes[number])
            scratch = tuple(pool.take(dtype, shapes[number]) for dtype in chosen.scratch)
            calls.append(_Call(chosen, number, scratch, step.operands))
            for array in scratch:
                pool.give(array)
            if not in_place:
                _release(pool, arrays, ending)
    return _Arranged(tuple(arrays), tuple(reads), tuple(calls), routines[-1] is not None and arrays[-1] is None)


def _release(pool: _Pool, arrays: Sequence[Array | None], places: Sequence[int]) -> None:
    for position in places:
        array = arrays[position]
        if array is not None:
            pool.give(array)


def _shapes(program: Program, by_number: dict[int, Array], out: Array) -> list[tuple[int, ...]]:
    """Return the shape of each instruction's value, once types and shapes are checked."""
    shapes: list[tuple[int, ...]] = []
    for step in program.instructions:
        if step.function == "input":
            _check_type(f"input {step.index}", by_number[step.index], storage_dtype(step.dtype))
            shapes.append(by_number[step.index].shape)
        else:
            shapes.append(_broadcast([shapes[operand] for operand in step.operands]))
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
