"""Elementwise expressions bound to arrays: every call and every temporary is there before the first run.

The functions are those of `openinfer.expr.numpy_functions`; only the binding is done here, once per statement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.expr.numpy_functions import literal_array, routine
from openinfer.simulate.devices.binding import in_order
from openinfer_backend_cpu.blocks import bind_blocks
from openinfer_backend_cpu.selection import bind_select, mask_dtype
from openinfer_backend_cpu.tables import bind_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.expr.linear import Instruction, Program
    from openinfer_backend_cpu.workspace import Workspace

Array: TypeAlias = "npt.NDArray[Any]"
BoundCall: TypeAlias = Callable[[], object]

PLAIN: Mapping[str, np.ufunc] = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
"""Functions that one ufunc computes on every type, so that its call needs no wrapper."""


def bind_program(program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> BoundCall:
    """Return a call that writes the value of a program, over broadcast inputs, to ``out``, which may be an input."""
    for otherwise in (bind_table, bind_blocks):
        bound = otherwise(program, inputs, out, workspace, _bind_functions)
        if bound is not None:
            return bound
    return _bind_functions(program, inputs, out, workspace)


def _bind_functions(program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> BoundCall:
    return _Binding(program, inputs, out, workspace).bind()


class _Binding:
    def __init__(self, program: Program, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> None:
        self._instructions = program.instructions
        self._inputs = inputs
        self._out = out
        self._workspace = workspace
        self._read = [inputs[number] for number in program.inputs]
        self._last_use = {place: n for n, step in enumerate(self._instructions) for place in step.operands}
        self._values: list[Array] = []
        self._temporary: dict[int, Array] = {}
        self._free: list[Array] = []

    def bind(self) -> BoundCall:
        calls: list[BoundCall] = []
        for number, step in enumerate(self._instructions):
            if step.value is not None:
                self._values.append(literal_array(step.value, step.dtype))
            elif step.function == "input":
                self._values.append(self._input(step.index))
            else:
                calls.append(self._call(number, step))
        if self._values[-1] is not self._out:
            calls.append(partial(np.copyto, self._out, self._values[-1]))
        return in_order(calls)

    def _input(self, index: int) -> Array:
        array = self._inputs[index]
        if array is None:
            raise ValueError(f"the expression reads input {index}, which was not given")
        return array

    def _call(self, number: int, step: Instruction) -> BoundCall:
        operands = [self._values[place] for place in step.operands]
        if step.function == "select":
            return self._select(number, step, *operands)
        chosen = routine(step.function, [self._instructions[place].dtype for place in step.operands], step.dtype)
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
        if chosen.atomic and not chosen.scratch:
            # The result may go where an operand is: one array less in the cache.
            self._release(step, number)
        target = self._target(number, step, shape, atomic=chosen.atomic)
        scratch = tuple(self._take(dtype, shape) for dtype in chosen.scratch)
        self._values.append(target)
        self._free += scratch
        self._release(step, number)
        plain = PLAIN.get(step.function)
        if plain is not None:
            return partial(plain, *operands, target)
        return partial(chosen.run, target, scratch, *operands)

    def _select(self, number: int, step: Instruction, condition: Array, a: Array, b: Array) -> BoundCall:
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        target = self._target(number, step, shape, atomic=True)
        mask = self._take(mask_dtype(target.dtype), shape)
        mixed = self._take(mask.dtype, shape)
        self._values.append(target)
        self._free += [mask, mixed]
        self._release(step, number)
        is_literal = self._instructions[step.operands[1]].value is not None
        a_is_zero = is_literal and not np.any(a.view(f"u{a.itemsize}"))
        return bind_select(condition, a, b, target, (mask, mixed), a_is_zero=a_is_zero)

    def _target(self, number: int, step: Instruction, shape: tuple[int, ...], *, atomic: bool) -> Array:
        """Return where a value goes: the result straight to the output, unless that is still read piece by piece."""
        last = number + 1 == len(self._instructions)
        aliased = any(array is self._out for array in self._read)
        if last and shape == self._out.shape and (atomic or not aliased):
            return self._out
        self._temporary[number] = self._take(storage_dtype(step.dtype), shape)
        return self._temporary[number]

    def _release(self, step: Instruction, number: int) -> None:
        """Let the temporaries of operands that are read for the last time be used again."""
        ending = [place for place in dict.fromkeys(step.operands) if self._ends(place, number)]
        self._free += [self._temporary.pop(place) for place in ending]

    def _ends(self, place: int, number: int) -> bool:
        return place in self._temporary and self._last_use[place] == number

    def _take(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        for position, array in enumerate(self._free):
            if array.dtype == dtype and array.shape == shape:
                return self._free.pop(position)
        return self._workspace.take(shape, dtype)
