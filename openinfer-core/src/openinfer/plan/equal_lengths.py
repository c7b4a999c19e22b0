"""Registers that hold the same length at a statement, because a step before it copied one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import changed_registers
from openinfer.plan.operands import alone
from openinfer.plan.range_lengths import RangeLengths
from openinfer.plan.steps import CallStep, LoopStep, Register, SetStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.affine import Index
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanRegister


class EqualLengths:
    """Copies of registers, as the steps up to the statement that is lowered make them.

    Attributes:
        ranges: lengths of ranges of caches.
    """

    def __init__(self) -> None:
        self.ranges = RangeLengths()
        self._originals: dict[int, Register] = {}

    def original(self, register: Register) -> Register:
        """Return the register that a register was copied from, where both still hold the same; else itself."""
        return self._originals.get(register.number, register)

    def forget(self) -> None:
        """Begin again, as at the start of a loop: registers may be those of its iteration before."""
        self._originals.clear()
        self.ranges.forget()

    def add(self, step: Step, registers: Sequence[PlanRegister]) -> None:
        """Take in the next step of a program with some registers."""
        self.ranges.add(step)
        match step:
            case SetStep(values=values):
                sources = {register: self._source(value, registers) for register, value in values}
                self._changed(sources)
                copies = {register: source for register, source in sources.items() if source is not None}
                self._originals |= {copy: of for copy, of in copies.items() if of.number not in sources}
            case LoopStep() | CallStep():
                self.forget()
            case _:
                self._changed(changed_registers(step))

    def _source(self, value: Index, registers: Sequence[PlanRegister]) -> Register | None:
        """Return the original that a value is a copy of; None: it is computed, or a write to a cache may change it."""
        source = alone(value)
        if not isinstance(source, Register) or registers[source.number].is_kept:
            return None
        return self.original(source)

    def _changed(self, registers: Iterable[int]) -> None:
        for register in registers:
            self._originals.pop(register, None)
            for copy in [copy for copy, of in self._originals.items() if of.number == register]:
                del self._originals[copy]
