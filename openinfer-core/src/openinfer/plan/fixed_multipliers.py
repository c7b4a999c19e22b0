"""Multipliers of requantisation as integers, on machines that do not compute in floats.

Those of a layer are stored times one power of two, 2^(32 + n), by which each is an integer below 2^31. They are exact,
so that codes are those of the multipliers in f32 (`openinfer.compute.requantise`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.compute import Read
from openinfer.compute.modular_sums import with_used_elements
from openinfer.dtypes import I32
from openinfer.expr import tree
from openinfer.plan.step_edits import free_name, operands_by_tensor, with_further_input, with_stage

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from openinfer.expr.tree import Expr
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import ComputeStep, Operand

    Array = npt.NDArray[Any]

POINT = 32
"""Bits after the point of a product of a total and a multiplier; ``n`` are further ones."""

MOST_FURTHER = 31

_BYTE = 128
"""What bytes without sign are larger by than those with sign."""


def with_fixed_multipliers(step: ComputeStep, data: PlanData) -> ComputeStep:
    """Return a step whose stages round totals by integer multipliers; the data of its plan grows by these."""
    for number in range(len(step.computation.stages)):
        step = _Rewriting(step, number, data).step()
    return step


class _Rewriting:
    def __init__(self, step: ComputeStep, number: int, data: PlanData) -> None:
        self._step = step
        self._number = number
        self._data = data
        self._stage = step.computation.stages[number]
        self._elements = list(self._stage.elements)

    def step(self) -> ComputeStep:
        value = self._fixed(self._stage.value)
        if len(self._elements) == len(self._stage.elements) and value is self._stage.value:
            return self._step
        stage = with_used_elements(replace(self._stage, elements=tuple(self._elements), value=value))
        return with_stage(self._step, self._number, stage)

    def _fixed(self, value: Expr) -> Expr:
        """Return an expression whose codes are made by `tree.requantise`, as far as multipliers are constants."""
        if not isinstance(value, tree.Apply):
            return value
        match value:
            case tree.Apply("clip8", (tree.Apply("add", (tree.Apply("scale", (m, x), _), tree.Literal(zero)), _),), _):
                code = self._code(m, x, int(zero))
            case tree.Apply(
                "minimum",
                (
                    tree.Apply(
                        "maximum",
                        (tree.Apply("add", (tree.Apply("scale", (m, x), _), tree.Literal(zero)), _), tree.Literal(0)),
                        _,
                    ),
                    tree.Literal(255),
                ),
                _,
            ):
                code = self._code(m, x, int(zero) - _BYTE)
                code = None if code is None else tree.add(code, tree.literal(_BYTE, I32))
            case _:
                code = None
        if code is not None:
            return code
        args = tuple(map(self._fixed, value.args))
        is_same = all(new is old for new, old in zip(args, value.args, strict=True))
        return value if is_same else tree.Apply(value.function, args, value.dtype)

    def _code(self, m: Expr, x: Expr, zero: int) -> Expr | None:
        """Return a code; None: its multipliers are not constants with one power of two."""
        operand = self._operand(m)
        if isinstance(m, tree.Literal):
            arrays = [np.array(m.value, np.float32)]
        else:
            arrays = None if operand is None else self._data.arrays(operand)
        further = None if arrays is None else further_bits(arrays)
        if further is None or abs(zero) > 2 * _BYTE:
            return None
        if isinstance(m, tree.Literal):
            multiplier: Expr = tree.literal(int(fixed(further, np.array(m.value, np.float32))), I32)
        elif operand is not None and isinstance(m, tree.Input):
            multiplier = self._constant(m.index, operand, further)
        else:
            return None
        return tree.requantise(multiplier, self._fixed(x), tree.literal(further, I32), tree.literal(zero, I32))

    def _operand(self, m: Expr) -> Operand | None:
        """Return the operand that an expression reads an element of; None: it is more than that."""
        element = self._elements[m.index] if isinstance(m, tree.Input) and m.index >= 0 else None
        if not isinstance(element, Read) or element.fill is not None:
            return None
        return operands_by_tensor(self._step)[element.tensor]

    def _constant(self, number: int, operand: Operand, further: int) -> Expr:
        element = self._elements[number]
        if not isinstance(element, Read):
            raise TypeError(f"element {number} is not read")
        tensor = self._step.computation.tensor(element.tensor)
        tensor = replace(tensor, name=free_name(self._step.computation, "x"), dtype=I32)
        operand = self._data.constant([operand], partial(fixed, further), I32)
        self._step = with_further_input(self._step, tensor, operand)
        self._elements.append(Read(tensor.name, element.at, I32))
        return tree.Input(len(self._elements) - 1, I32)


def further_bits(multipliers: list[Array]) -> int | None:
    """Return the least ``n`` for which 2^(32 + n) times any of some f32 is an integer; None: one is 2^31 then, or more.

    All of them are to be positive and finite.
    """
    every = np.concatenate([array.reshape(-1) for array in multipliers]).astype(np.float64)
    if every.size == 0 or not (np.isfinite(every) & (every > 0)).all():
        return None
    for further in range(MOST_FURTHER + 1):
        scaled = np.ldexp(every, POINT + further)
        if (scaled >= 2.0**31).any():
            return None
        if (scaled == np.rint(scaled)).all():
            return further
    return None


def fixed(further: int, multipliers: Array) -> Array:
    """Return multipliers times 2^(32 + ``further``)."""
    return np.ldexp(multipliers.astype(np.float64), POINT + further).astype(np.int32)
