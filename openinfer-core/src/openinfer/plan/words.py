"""Weights of few bits as words: products of floats with them shift each element out of its word, in registers.

They keep their bytes, in the order of the words; packed zero points become bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.array_types import storage_dtype
from openinfer.compute import Order, Read, Tensor
from openinfer.compute.factors import factored
from openinfer.compute.words import WORD, in_words, with_operand, words_of
from openinfer.dtypes import I8, I32, U8
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.packing import unpack
from openinfer.plan.rewriting import with_steps
from openinfer.plan.step_edits import operands_by_tensor, with_input, with_stage
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.values import PackedWeight, PlanValue, WeightMemory
from openinfer.plan.weights import bytes_of, is_finite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Stage
    from openinfer.compute.words import Words
    from openinfer.dtypes import DType
    from openinfer.plan.steps import Operand, Procedure, Step

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Worded:
    """The parts of a plan in which weights of few bits are words."""

    procedures: tuple[Procedure, ...]
    values: tuple[PlanValue, ...]
    weights: tuple[PackedWeight, ...]


def worded(procedures: Sequence[Procedure], values: Sequence[PlanValue], weights: Sequence[PackedWeight]) -> Worded:
    """Return a plan in which products of floats with constants of few bits read these as words.

    The weights in their first form are still there, for other steps.
    """
    making = _Wording(list(values), list(weights))
    made = with_steps(procedures, lambda step: (making.step(step),))
    return Worded(made, tuple(making.values), tuple(making.weights))


class _Wording:
    """Rewrites steps one after the other; values and weights grow by those in another form."""

    def __init__(self, values: list[PlanValue], weights: list[PackedWeight]) -> None:
        self.values = values
        self.weights = weights
        self._known: dict[tuple[object, ...], ValueRef] = {}

    def step(self, step: Step) -> Step:
        if not isinstance(step, ComputeStep):
            return step
        for number, stage in enumerate(step.computation.stages):
            if self._words(step, stage) is not None:
                step = self._factored(step, number)
            words = self._words(step, step.computation.stages[number])
            if words is not None:
                step = self._in_words(step, number, words)
        return step

    def _factored(self, step: ComputeStep, number: int) -> ComputeStep:
        """Return a step in which a scale for all terms of a sum is applied to the sum."""
        operands = operands_by_tensor(step)
        stage = factored(step.computation.stages[number], lambda read: self._is_finite(operands[read.tensor]))
        return with_stage(step, number, stage)

    def _is_finite(self, operand: Operand) -> bool:
        value = self.values[operand.value] if isinstance(operand, ValueRef) else None
        if value is None or not isinstance(value.memory, WeightMemory):
            return False
        return is_finite(self.weights[value.memory.number])

    def _words(self, step: ComputeStep, stage: Stage) -> Words | None:
        """Return what a stage can read as words, if that leaves no element that shares a byte with another."""
        fold = stage.fold
        if fold is None or fold.order is not Order.ANY or not fold.totals[0].dtype.is_float:
            return None
        small = [n for n, e in enumerate(stage.elements) if isinstance(e, Read) and e.dtype.bits <= 8]
        if not all(self._is_own(step, stage.elements[number]) for number in small):
            return None
        words = (words_of(stage, number) for number in small)
        return max((w for w in words if w is not None), key=lambda w: _count(stage, w.number), default=None)

    def _is_own(self, step: ComputeStep, element: object) -> bool:
        """Return whether an element is the only one of a constant."""
        if not isinstance(element, Read) or element.fill is not None:
            return False
        readers = [e for s in step.computation.stages for e in s.elements if isinstance(e, Read)]
        if sum(e.tensor == element.tensor for e in readers) > 1:
            return False
        operand = operands_by_tensor(step)[element.tensor]
        return isinstance(operand, ValueRef) and isinstance(self.values[operand.value].memory, WeightMemory)

    def _in_words(self, step: ComputeStep, index: int, words: Words) -> ComputeStep:
        stage = step.computation.stages[index]
        outer = words.outer.extent if words.outer is not None and isinstance(words.outer.extent, int) else 0
        for number, read in enumerate(stage.elements):
            if not isinstance(read, Read) or read.dtype.bits > 8:
                continue
            if number == words.number:
                bits = read.dtype.bits
                step = self._with_operand(step, read, I32, lambda a, b=bits: word_array(a, words.dim, outer, b))
            elif read.dtype.is_packed:
                wide = U8 if read.dtype.minimum == 0 else I8
                step = self._with_operand(step, read, wide, lambda a: a)
                stage = _widened(stage, number, wide)
        return with_stage(step, index, in_words(stage, words))

    def _with_operand(self, step: ComputeStep, read: Read, dtype: DType, form: Callable[[Array], Array]) -> ComputeStep:
        """Return a step that has a constant in another form."""
        operand = self._value(operands_by_tensor(step)[read.tensor], dtype, form)
        shape = self.values[operand.value].type.shape
        return with_input(step, Tensor(read.tensor, dtype, tuple(map(Index.of, shape))), operand)

    def _value(self, operand: Operand, dtype: DType, form: Callable[[Array], Array]) -> ValueRef:
        """Return the value of a constant in another form; equal ones are one."""
        if not isinstance(operand, ValueRef):
            raise TypeError(f"{operand} is not a weight")
        value = self.values[operand.value]
        if not isinstance(value.memory, WeightMemory):
            raise TypeError(f"{value.name} is not a weight")
        weight = self.weights[value.memory.number]
        array = np.ascontiguousarray(form(elements_of(weight)))
        key = (weight.number, dtype, array.shape)
        if key not in self._known:
            type_, memory = TensorType(dtype, array.shape), WeightMemory(len(self.weights))
            self.weights.append(
                PackedWeight(number=memory.number, source=weight.source, type=type_, data=bytes_of(array))
            )
            self.values.append(replace(value, number=len(self.values), type=type_, memory=memory))
            self._known[key] = ValueRef(len(self.values) - 1)
        return self._known[key]


def elements_of(weight: PackedWeight) -> Array:
    """Return the elements of a weight in row-major order; those of packed types as bytes."""
    stored = np.frombuffer(weight.data, np.uint8)
    if weight.type.dtype.is_packed:
        return unpack(stored, weight.type.dtype, weight.type.shape)
    return stored.view(storage_dtype(weight.type.dtype).newbyteorder("<")).reshape(weight.type.shape)


def word_array(array: Array, dim: int, outer: int, bits: int) -> Array:
    """Return small integers as words: the elements along ``dim`` share words, the first has the lowest bits.

    Args:
        outer: into how many parts ``dim`` is split before, which get a dimension of their own; 0: it is not split.
    """
    per, mask = WORD // bits, np.uint8((1 << bits) - 1)
    codes = np.moveaxis(array.view(np.uint8), dim, 0)
    words = np.zeros((codes.shape[0] // per, *codes.shape[1:]), np.uint32)
    part = np.empty_like(words)
    for lane in range(per):
        np.copyto(part, codes[lane::per] & mask)
        words |= np.left_shift(part, np.uint32(lane * bits), out=part)
    parts = words.reshape(outer, words.shape[0] // outer, *words.shape[1:]) if outer else words
    starts = (0, 1) if outer else (0,)
    return np.moveaxis(parts, starts, tuple(range(dim, dim + len(starts)))).view(np.int32)


def _widened(stage: Stage, number: int, dtype: DType) -> Stage:
    """Return a stage in which an element has another type that holds its values, which is cast wherever it is used."""
    fold, read = stage.fold, stage.elements[number]
    if fold is None or not isinstance(read, Read):
        raise TypeError(f"element {number} is not read by a fold")
    wide = tree.Input(number, dtype)
    totals = tuple(replace(total, term=with_operand(total.term, number, wide)) for total in fold.totals)
    elements = list(stage.elements)
    elements[number] = replace(read, dtype=dtype)
    value = with_operand(stage.value, number, wide)
    return replace(stage, elements=tuple(elements), value=value, fold=replace(fold, totals=totals))


def _count(stage: Stage, number: int) -> int:
    """Return how many axes walk an element: of a matrix and its zero points the matrix has more."""
    element = stage.elements[number]
    return len({var for index in element.at for var in index.variables()}) if isinstance(element, Read) else 0
