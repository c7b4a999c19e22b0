"""Lengths of ranges of caches as differences of their ends, and how long two of them are together.

The two parts of a ring, ``ring[at..16]`` and ``ring[0..at]``, have 16 rows whatever ``at`` is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.accesses import changed_registers, writes
from openinfer.plan.operands import symbols
from openinfer.plan.steps import (
    CallStep,
    LoadStep,
    LoopStep,
    Register,
    StoreStep,
    ValueRef,
)

if TYPE_CHECKING:
    from openinfer.affine import Index
    from openinfer.plan.regions import Axis
    from openinfer.plan.steps import Step


@dataclass(frozen=True, slots=True)
class _Length:
    """What a register holds.

    Attributes:
        length: over what the program reads.
        counted: what has to be 0 or more for that: an end below 0 counts from the end of the table.
        values, registers: what it depends on.
    """

    length: Index
    counted: Index | None
    values: int
    registers: frozenset[int]


class RangeLengths:
    """Lengths that reads of caches gave registers, as long as what they were computed from is the same."""

    def __init__(self) -> None:
        self._lengths: dict[int, _Length] = {}
        self._starts: dict[Index, _Length] = {}

    def forget(self) -> None:
        """Begin again, as at the start of a loop."""
        self._lengths.clear()
        self._starts.clear()

    def together(self, one: Register, other: Register) -> int | None:
        """Return how long two ranges are together; None where that varies."""
        lengths = self._of(one), self._of(other)
        return None if lengths[0] is None or lengths[1] is None else (lengths[0] + lengths[1]).constant

    def _of(self, register: Register) -> Index | None:
        """Return the length that a register holds, over names of the program; None where that is not known."""
        length = self._lengths.get(register.number)
        if length is None or not (length.counted is None or self._is_counted(length.counted)):
            return None
        return length.length

    def _is_counted(self, end: Index) -> bool:
        """Whether an end is 0 or more, as a place that was read or written was not past it."""
        distances = ((end - start).constant for start in self._starts)
        return any(distance is not None and distance >= 0 for distance in distances)

    def add(self, step: Step) -> None:
        """Take in the next step of a program."""
        if isinstance(step, CallStep | LoopStep):
            self.forget()
            return
        self._changed(writes(step), frozenset(changed_registers(step)))
        if isinstance(step, LoadStep | StoreStep):
            for axis in step.region.axes:
                start, (values, registers) = axis.start, _sources(axis.start)
                if registers.isdisjoint(changed_registers(step)):
                    self._starts[start] = _Length(start, None, values, registers)
        if isinstance(step, LoadStep):
            for axis, register in zip(step.region.ranges, step.lengths, strict=False):
                if register is not None and axis.end is not None:
                    self._read(register, axis, axis.end)

    def _read(self, register: int, axis: Axis, end: Index) -> None:
        values, registers = _sources(axis.start, end)
        if register not in registers:
            counted = None if axis.current is None else end
            self._lengths[register] = _Length(end - axis.start, counted, values, registers)

    def _changed(self, values: int, registers: frozenset[int]) -> None:
        def kept(length: _Length) -> bool:
            return not length.values & values and length.registers.isdisjoint(registers)

        self._lengths = {
            register: length for register, length in self._lengths.items() if register not in registers and kept(length)
        }
        self._starts = {start: length for start, length in self._starts.items() if kept(length)}


def _sources(*exprs: Index) -> tuple[int, frozenset[int]]:
    """Return the values, as bits, and the registers that expressions depend on."""
    operands = [symbol.operand for expr in exprs for symbol in symbols(expr)]
    values = sum(1 << value for value in {operand.value for operand in operands if isinstance(operand, ValueRef)})
    return values, frozenset(operand.number for operand in operands if isinstance(operand, Register))
