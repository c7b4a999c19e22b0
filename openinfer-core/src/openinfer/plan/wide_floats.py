"""Low floats that sums read many times, as f32: each is converted once, where it is written or when the plan is made.

A value that no other than computations touch is stored in f32, with the numbers that its type has. What lies in memory
of the caller is converted once, before it is first read. Constants whose elements each step of the program reads only a
few times, as one token reads a matrix, keep their type: there the time is that of their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, Var
from openinfer.compute import Computation, Read, Stage, Tensor
from openinfer.compute.wide_floats import with_wide_tensors
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.layout import row_major
from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.rewriting import with_steps
from openinfer.plan.step_edits import operands_by_tensor
from openinfer.plan.steps import ComputeStep, CopyStep, ValueRef
from openinfer.plan.values import InputMemory, NoMemory, Role
from openinfer.schedule.loops import USUAL, usual_extent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Operand, Procedure, Step

MANY = 4
"""Reads of each element of a value from which on it is converted once."""

MANY_OF_CONSTANT = 16
"""The same for constants, which take twice the memory in f32."""


def with_wide_floats(procedures: Sequence[Procedure], data: PlanData, wanted: int) -> tuple[Procedure, ...]:
    """Return a program that reads low floats as f32 where its sums read them many times.

    The values of its plan change their types, and values and weights grow by what is converted.

    Args:
        wanted: values that are read when the program has ended, as bits.
    """
    if not any(value.type.dtype.is_low_float for value in data.values) and not any(
        table.type.dtype.is_low_float for table in data.tables
    ):
        return tuple(procedures)
    steps = [step for procedure in procedures for step in walk(procedure.steps)]
    counts = _reads_of_each(steps)
    wide = _wide_values(steps, data, wanted, counts)
    low = {number: data.values[number].type.dtype for number in wide}
    for number in wide:
        value = data.values[number]
        data.values[number] = replace(value, type=TensorType(F32, value.type.shape))
    widening = _Widening(data, low, counts, {})
    return tuple(map(widening.procedure, procedures))


def _reads_of_each(steps: Iterable[Step]) -> Mapping[Operand, float]:
    """Return how often the terms of one sum read each element of an operand, at most."""
    counts: dict[Operand, float] = {}
    for step in steps:
        if not isinstance(step, ComputeStep):
            continue
        operands = operands_by_tensor(step)
        for stage in step.computation.stages:
            for read in _terms(stage):
                operand = operands[read.tensor]
                shape = step.computation.tensor(read.tensor).shape
                extents = [extent.constant for extent in shape]
                elements = prod(USUAL if extent is None else extent for extent in extents)
                terms = prod(usual_extent(axis) for axis in stage.all_axes)
                counts[operand] = max(counts.get(operand, 0.0), terms / max(elements, 1))
    return counts


def _terms(stage: Stage) -> Iterator[Read]:
    """Yield what the terms of a fold read."""
    totals = () if stage.fold is None else stage.fold.totals
    for number in {number for total in totals for number in linearise(total.term).inputs if number >= 0}:
        element = stage.elements[number]
        if isinstance(element, Read):
            yield element


def _wide_values(steps: Sequence[Step], data: PlanData, wanted: int, counts: Mapping[Operand, float]) -> frozenset[int]:
    """Return the values that are stored in f32: computations and copies among them alone touch them."""
    groups = {
        value.number: {value.number}
        for value in data.values
        if value.type.dtype.is_low_float
        and isinstance(value.memory, NoMemory)
        and value.role is Role.TEMPORARY
        and value.layout is None
        and not wanted >> value.number & 1
    }
    others: set[int] = set()
    for step in steps:
        if isinstance(step, CopyStep) and isinstance(step.source, ValueRef):
            source, output = step.source.value, step.output
            if source in groups and output in groups:
                joined = groups[source] | groups[output]
                groups |= dict.fromkeys(joined, joined)
                continue
        if not isinstance(step, ComputeStep):
            others.update(members(reads(step) | writes(step)))
    return frozenset(
        number
        for number, group in groups.items()
        if not group & others and any(counts.get(ValueRef(member), 0.0) >= MANY for member in group)
    )


@dataclass(frozen=True, slots=True)
class _Widening:
    """Rewrites procedures one after the other.

    Attributes:
        low: the types that values had which are f32 by now.
        constants: what constants in f32 are, by what they were.
    """

    data: PlanData
    low: Mapping[int, DType]
    counts: Mapping[Operand, float]
    constants: dict[Operand, Operand]

    def procedure(self, procedure: Procedure) -> Procedure:
        """Return a procedure that converts each input of the caller before the first step, or loop, that reads it."""
        copies: dict[Operand, ValueRef] = {}
        made: list[Step] = []
        for outer in procedure.steps:
            for step in walk((outer,)):
                made += self._copies(step, copies)
            (changed,) = with_steps((replace(procedure, steps=(outer,)),), lambda step: [self._wide(step, copies)])
            made += changed.steps
        return replace(procedure, steps=tuple(made))

    def _copies(self, step: Step, copies: dict[Operand, ValueRef]) -> Iterator[Step]:
        """Yield the conversions of what a step reads, of which there are none yet."""
        if not isinstance(step, ComputeStep):
            return
        for operand, tensor in zip(step.inputs, step.computation.inputs, strict=True):
            if operand not in copies and self._is_copied(operand, tensor):
                copies[operand], copy = self._copy(step, operand)
                yield copy

    def _wide(self, step: Step, copies: Mapping[Operand, ValueRef]) -> Step:
        """Return a step that reads what is f32 by now."""
        if not isinstance(step, ComputeStep):
            return step
        names = {
            name: self.low[operand.value]
            for name, operand in operands_by_tensor(step).items()
            if isinstance(operand, ValueRef) and operand.value in self.low
        }
        inputs = list(step.inputs)
        for number, tensor in enumerate(step.computation.inputs):
            operand = inputs[number]
            if tensor.name in names or not tensor.dtype.is_low_float:
                continue
            if self._is_converted(operand):
                inputs[number] = self._constant(operand)
                names[tensor.name] = tensor.dtype
            elif self._is_copied(operand, tensor):
                inputs[number] = copies[operand]
                names[tensor.name] = tensor.dtype
        if not names:
            return step
        return replace(step, computation=with_wide_tensors(step.computation, names), inputs=tuple(inputs))

    def _is_converted(self, operand: Operand) -> bool:
        """Whether an operand is a constant that becomes f32."""
        return self.counts.get(operand, 0.0) >= MANY_OF_CONSTANT and self.data.arrays(operand) is not None

    def _constant(self, operand: Operand) -> Operand:
        if operand not in self.constants:
            self.constants[operand] = self.data.constant([operand], wide_array, F32)
        return self.constants[operand]

    def _is_copied(self, operand: Operand, tensor: Tensor) -> bool:
        """Whether an operand is memory of the caller that is copied in f32."""
        if not isinstance(operand, ValueRef) or any(extent.constant is None for extent in tensor.shape):
            return False
        if not tensor.dtype.is_low_float:
            return False
        memory = self.data.values[operand.value].memory
        return isinstance(memory, InputMemory) and self.counts.get(operand, 0.0) >= MANY

    def _copy(self, step: ComputeStep, operand: Operand) -> tuple[ValueRef, ComputeStep]:
        """Return a value in f32 with the order of an operand, and the step that converts it: in lanes, as it lies."""
        if not isinstance(operand, ValueRef):
            raise TypeError(f"{operand} is not a value")
        source = self.data.values[operand.value]
        number, shape = len(self.data.values), source.type.shape
        extents = tuple(map(Index.of, shape))
        self.data.values.append(
            replace(
                source,
                number=number,
                name=f"{source.name}.wide",
                type=TensorType(F32, shape),
                role=Role.TEMPORARY,
                memory=NoMemory(),
                layout=row_major(extents),
            )
        )
        axes = tuple(Var(f"i{dim}", extent) for dim, extent in enumerate(shape))
        at = tuple(map(Index.of, axes))
        low = source.type.dtype
        stage = Stage("y0", axes, (Read("x0", at, low),), tree.cast(tree.Input(0, low), F32), at)
        computation = Computation("widen", (Tensor("x0", low, extents),), (Tensor("y0", F32, extents),), (stage,))
        made = ComputeStep(
            origin=step.origin,
            op="widen",
            computation=computation,
            inputs=(operand,),
            outputs=(number,),
            placement=step.placement,
        )
        return ValueRef(number), made


def wide_array(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return low floats as f32; a NaN is quiet and has no further bits (``specification: dtypes.rounding``)."""
    wide = np.ascontiguousarray(array.astype(np.float32))
    bits = wide.view(np.uint32)
    bits[np.isnan(wide)] = bits[np.isnan(wide)] & np.uint32(0x80000000) | np.uint32(0x7FC00000)
    return wide
