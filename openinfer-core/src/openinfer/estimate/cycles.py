"""Cycles of loop programs on processors that begin one instruction at a time, such as microcontrollers.

A function of an expression, a store and a load are one cycle each, where compilers keep what a block loads twice in a
register and an iteration of a loop that is not written out is four, a taken branch among them. The manual of the
Cortex-M4 has these for words and for products of two halves, if flash has no wait states. Four products of bytes are
six instructions where the processor has none for them, and a code by integers is a call of a function of twenty.
Without floats a function of them is a call of a library, some fifty cycles. Numbers are for choosing between layers,
not for deadlines, which a board measures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.estimate.sizes import Extents
from openinfer.expr.linear import linearise
from openinfer.loops import Bind, For, If, Let, Load, Lookup, Set, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.arch import TargetInfo
    from openinfer.dims import Size
    from openinfer.expr.linear import Instruction
    from openinfer.loops import Kernel, Statement, Value

ITERATION = 4
"""Cycles of an iteration: count, compare, and a branch that empties the pipeline."""

FLOAT_CALL = 50
"""Cycles of a function of floats where the processor has none: GCC's library takes 30 to 80 on a Cortex-M3."""

_PRODUCTS = {"dot4": 6, "sdot4": 6}
"""Instructions of functions that few processors have: four that widen bytes in pairs, and two that multiply these."""

_CALLED = {"requantise": 20}
"""Instructions of functions that are called, far from ties: GCC 12.2 makes 18 of it for a Cortex-M3, 22 for RV32IMC,
with the call."""

_FREE = frozenset(("input", "literal", "to_bits", "from_bits"))
_EXTENTS = Extents({})


def kernel_cycles(kernel: Kernel, machine: TargetInfo) -> Size | None:
    """Return the cycles of a loop program; None where the length of a loop is known at run time only."""
    return _Counting(machine).block(kernel.body)


class _Counting:
    def __init__(self, machine: TargetInfo) -> None:
        self._machine = machine

    def block(self, body: Sequence[Statement]) -> Size | None:
        loaded: set[Load] = set()
        total: Size = 0
        for statement in body:
            cycles = self._statement(statement, loaded)
            if cycles is None:
                return None
            total = total + cycles
        return total

    def _statement(self, statement: Statement, loaded: set[Load]) -> Size | None:
        match statement:
            case For(var, bind, body):
                times, inside = _EXTENTS.most(var.extent), self.block(body)
                if times is None or inside is None:
                    return None
                # Lanes are computed at once; what is written out has no branch.
                return inside if bind is Bind.LANES else times * (inside + (ITERATION if bind is Bind.SERIAL else 0))
            case If(tests, body):
                inside = self.block(body)
                return None if inside is None else inside + len(tests)
            case Let(_, value) | Set(_, value) | Lookup(_, value):
                return self._value(value, loaded)
            case Store(buffer, _, value):
                cycles = self._value(value, loaded) + 1
                loaded.difference_update([load for load in loaded if load.buffer == buffer])
                return cycles
            case _:
                return 0

    def _value(self, value: Value, loaded: set[Load]) -> int:
        loads = {leaf for leaf in value.leaves if isinstance(leaf, Load)} - loaded
        loaded |= loads
        instructions = linearise(value.expr).instructions
        return len(loads) + sum(self._function(instruction, instructions) for instruction in instructions)

    def _function(self, instruction: Instruction, before: Sequence[Instruction]) -> int:
        function, is_float = instruction.function, instruction.dtype.is_float
        if function in _FREE:
            return 0
        if function == "cast":
            was_float = before[instruction.operands[0]].dtype.is_float
            if was_float == is_float:
                return 0
            is_float = True
        if is_float and self._machine.fpu == "none":
            return FLOAT_CALL
        if function in _PRODUCTS:
            return 1 if self._machine.dot4 else _PRODUCTS[function]
        return _CALLED.get(function, 1)
