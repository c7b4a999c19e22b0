"""Operands of a step as local pointers of the generated source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.steps import LoopIndex, TableRef, ValueRef
from openinfer.synth.c_host.integers import number_text
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.index_text import flat
from openinfer_synth_c.integers import declare_integers

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand
    from openinfer.plan.values import WeightTable
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.names import Names


class Binder:
    """Declares the pointers of one step at the start of its braces."""

    def __init__(self, code: Code, names: Names, plan: ExecutionPlan) -> None:
        self._code = code
        self._names = names
        self._plan = plan
        self._known: dict[Operand, Bound] = {}

    def output(self, value: int, name: str) -> Bound:
        """Declare the pointer to a result. An input that is the same value is read through it."""
        bound = Bound(name, self._names.type_of(ValueRef(value)), self._code)
        self._code.line(f"{bound.item_type} *const {name} = {self._names.value(value)};")
        self._known[ValueRef(value)] = bound
        return bound

    def input(self, operand: Operand, name: str) -> Bound:
        """Declare the pointer to an operand, once."""
        if operand not in self._known:
            self._known[operand] = self._declared(operand, name)
        return self._known[operand]

    def _declared(self, operand: Operand, name: str) -> Bound:
        type_ = self._names.type_of(operand)
        if isinstance(operand, LoopIndex):
            return Bound(self._names.loops[operand.loop], type_, self._code, pointer=False)
        bound = Bound(name, type_, self._code)
        address = self._entry(operand, name) if isinstance(operand, TableRef) else self._names.value(operand.value)
        self._code.line(f"const {bound.item_type} *const {name} = {address};")
        if isinstance(operand, TableRef) and operand.checked:
            self._code.refuse(f"{name} == NULL")
        return bound

    def _entry(self, ref: TableRef, name: str) -> str:
        """Return the address of a table's entry, after tests of the indices that need them."""
        table = self._plan.table(ref.table)
        fixed = [index.constant for index in ref.indices]
        known = [value for value in fixed if value is not None]
        if len(known) == len(fixed):
            return self._names.weight(dict(table.fixed)[tuple(known)])
        indices = {f"{name}_{axis}": index for axis, index in enumerate(ref.indices)}
        declare_integers(self._code, self._names, indices, flag=f"{name}_overflow")
        if ref.checked:
            for axis, local in enumerate(indices):
                self._code.refuse(_range_test(local, table, axis))
        texts = [
            f"({local} - {number_text(start)})" if start else local
            for local, start in zip(indices, table.starts, strict=True)
        ]
        strides = [_stride(table, axis) for axis in range(len(texts))]
        entry = f"{self._names.table(table.number)}[{flat(texts, strides)}]"
        return f"weight_at(model, {entry})" if self._names.weights_apart else entry


def _stride(table: WeightTable, axis: int) -> int:
    stride = 1
    for extent in table.extents[axis + 1 :]:
        stride *= extent
    return stride


def _range_test(name: str, table: WeightTable, axis: int) -> str:
    low, high = table.starts[axis], table.starts[axis] + table.extents[axis] - 1
    return f"{name} < {number_text(low)} || {name} > {number_text(high)}"
