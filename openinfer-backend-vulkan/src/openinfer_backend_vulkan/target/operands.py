"""Operands of a step: where each lies, and with which element it begins if only the run knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.steps import LoopIndex, TableRef
from openinfer.plan.values import ViewMemory
from openinfer.synth.c_host.integers import declare_integers, number_text
from openinfer_backend_vulkan.target.integers import is_known
from openinfer_backend_vulkan.target.places import HOST, WEIGHTS, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand
    from openinfer.plan.values import WeightTable
    from openinfer.synth.c_host.lines import Lines
    from openinfer_backend_vulkan.target.commands import Commands
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.places import Places


@dataclass(frozen=True, slots=True)
class Located:
    """An operand.

    Attributes:
        base: appends C that computes the first element, and returns its text; None: it is that of the place.
    """

    place: Place
    base: Callable[[Lines], str] | None = None


class Locator:
    """Finds the operands of steps; ``code`` is the segment that they are in."""

    def __init__(self, plan: ExecutionPlan, places: Places, names: HostNames) -> None:
        self._plan = plan
        self._places = places
        self._names = names

    def value(self, number: int) -> Located:
        """Return a value."""
        memory = self._plan.values[number].memory
        if not isinstance(memory, ViewMemory):
            return Located(self._places.value(number))
        of, register = self.value(memory.state), self._names.register(memory.register)
        inner = of.base
        if inner is None:
            return Located(of.place, lambda _: register)
        return Located(of.place, lambda code: f"{inner(code)} + {register}")

    def operand(self, operand: Operand, code: Commands, name: str) -> Located:
        """Return an operand; tests of table indices that are known when commands are recorded are appended to it.

        Args:
            name: what variables begin with.
        """
        if isinstance(operand, LoopIndex):
            code.number(name, self._names.place(operand))
            return Located(Place(HOST, f"{name}.offset", 8, 0, 0, f"the index of loop {operand.loop}"))
        if not isinstance(operand, TableRef):
            return self.value(operand.value)
        table = self._plan.table(operand.table)
        constants = tuple(index.constant for index in operand.indices)
        if None not in constants:
            return Located(self._places.weight(dict(table.fixed)[tuple(n for n in constants if n is not None)]))
        place = self._table_place(table)
        if all(is_known(index, self._names.local) for index in operand.indices):
            self._declare_entry(code, operand, table, name)
            return Located(Place(WEIGHTS, name, table_nbytes(table), place.low, place.high, place.what))
        dtype = table.stored.dtype

        def base(lines: Lines) -> str:
            self._declare_entry(lines, operand, table, name)
            return f"(int64_t)({name} - {place.low}) {elements_text(dtype)}"

        return Located(place, base)

    def _table_place(self, table: WeightTable) -> Place:
        """Return the bytes from the first entry to the last."""
        entries = [self._places.weight(entry) for entry in table.entries if entry is not None]
        what = f"{table.name}: {table.type}"
        low, high = min((e.low for e in entries), default=0), max((e.high for e in entries), default=4)
        return Place(WEIGHTS, low, high - low, low, high, what)

    def _declare_entry(self, code: Lines, ref: TableRef, table: WeightTable, name: str) -> None:
        """Append the offset of a table's entry as a constant, after the tests of its indices."""
        self._names.used_tables.add(table.number)
        indices = {f"{name}_{axis}": index for axis, index in enumerate(ref.indices)}
        declare_integers(code, self._names, indices, flag=f"{name}_overflow")
        at = "0"
        for local, start, extent in zip(indices, table.starts, table.extents, strict=True):
            if ref.checked:
                low, high = number_text(start), number_text(start + extent - 1)
                code.refuse(f"{local} < {low} || {local} > {high}")
            digit = f"({local} - {number_text(start)})" if start else local
            at = digit if at == "0" else f"({at}) * {extent} + {digit}"
        code.line(f"const VkDeviceSize {name} = {self._names.tables[table.number]}[{at}];")
        if ref.checked:
            code.refuse(f"{name} == OPENINFER_NOWHERE")

    def test_entry(self, code: Lines, ref: TableRef, name: str) -> None:
        """Append the test that an entry exists."""
        self._declare_entry(code, ref, self._plan.table(ref.table), name)
        code.line(f"(void){name};")


def table_nbytes(table: WeightTable) -> int:
    """Return the bytes of an entry, whole words."""
    return max(-(-table.stored.nbytes // 4) * 4, 4)


def elements_text(dtype: DType) -> str:
    """Return the C that follows a number of bytes to make it one of elements, of which a place holds whole ones."""
    return f"* {8 // dtype.bits}" if dtype.bits < 8 else f"/ {dtype.bits // 8}"
