"""Extents of a plan as expressions of the sizes that the caller gives in every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from openinfer import dims
from openinfer.affine import Index
from openinfer.dims import NeedsNumberError, Space
from openinfer.plan.accesses import walk
from openinfer.plan.operands import symbols
from openinfer.plan.sized_symbols import LARGEST
from openinfer.plan.steps import ComputeStep, CopyStep, Register, ValueRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.affine import Var
    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step


def storage_nbytes(dtype: DType, count: Size) -> Size:
    """Return the bytes that elements take in storage."""
    # The formula is that of numbers, and takes sizes as the integers that they stand for.
    return dtype.storage_nbytes(cast("int", count))


class Extents:
    """Extents of a computation, by the values of its parameters; what depends on others has its largest value."""

    def __init__(self, parameters: Mapping[str, Size]) -> None:
        self._parameters = parameters

    def most(self, extent: int | Index | None) -> Size | None:
        """Return the largest value of an extent at any sizes; None where that is not known."""
        if not isinstance(extent, Index):
            return extent
        if any(variable.name not in self._parameters for variable in extent.variables()):
            return extent.interval.high
        try:
            return dims.max(0, extent.evaluate(cast("Mapping[str, int]", self._parameters)))
        except NeedsNumberError:
            return extent.interval.high

    def places(self, axes: Iterable[Var]) -> Size | None:
        """Return how many places some axes have together at most; None where that is not known."""
        return self.count(axis.extent for axis in axes)

    def count(self, extents: Iterable[int | Index | None]) -> Size | None:
        """Return the product of some extents at most; None where it is not known."""
        product: Size = 1
        for extent in extents:
            most = self.most(extent)
            if most is None:
                return None
            product = product * most
        return product


class PlanSizes:
    """The sizes of a plan, and what depends on them."""

    def __init__(self, plan: ExecutionPlan) -> None:
        space = Space(answers_outside=True)
        self._plan = plan
        self._registers: dict[int, Size] = {
            register.number: space.size(register.size, 0, register.most)
            for register in plan.registers
            if register.size is not None
        }
        self._nbytes = dict(self._varying()) if self._registers else {}

    def extents(self, step: ComputeStep) -> Extents:
        """Return what extents of a computation are."""
        parameters: dict[str, Size] = {}
        for parameter, argument in zip(step.computation.parameters, step.arguments, strict=True):
            value = self.value(argument.value)
            if value is not None or argument.high < LARGEST:
                parameters[parameter.name] = argument.high if value is None else value
        return Extents(parameters)

    def nbytes(self, value: int, kind: TensorType) -> Size:
        """Return the bytes that a value has in a step; ``kind`` is the largest type of it."""
        has_layout = self._plan.values[value].layout is not None
        return kind.nbytes if has_layout else self._nbytes.get(value, kind.nbytes)

    def value(self, expr: Index) -> Size | None:
        """Return an expression of numbers and sizes; None where it depends on more."""
        values: dict[str, Size] = {}
        for symbol in symbols(expr):
            register = symbol.operand.number if isinstance(symbol.operand, Register) else None
            value = None if register is None else self._registers.get(register)
            if value is None:
                return None
            values[symbol.name] = value
        try:
            return dims.evaluated(expr, cast("Mapping[str, int]", values))
        except NeedsNumberError:
            return None

    def _varying(self) -> Iterator[tuple[int, Size]]:
        """Yield the values whose bytes differ from step to step, with these."""
        for procedure in self._plan.procedures:
            for step in walk(procedure.steps):
                for value, count in self._counts(step):
                    if count is not None:
                        yield value, storage_nbytes(self._plan.values[value].type.dtype, count)

    def _counts(self, step: Step) -> Iterator[tuple[int, Size | None]]:
        """Yield values that a step touches with their numbers of elements, where the step says these."""
        if isinstance(step, CopyStep) and step.count is not None:
            yield step.output, self.value(step.count)
        if not isinstance(step, ComputeStep):
            return
        extents, computation = self.extents(step), step.computation
        inputs = (operand.value if isinstance(operand, ValueRef) else None for operand in step.inputs)
        numbers = (*inputs, *step.outputs, *step.temporaries)
        tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
        for value, tensor in zip(numbers, tensors, strict=True):
            if value is not None and any(extent.constant is None for extent in tensor.shape):
                yield value, extents.count(tensor.shape)
