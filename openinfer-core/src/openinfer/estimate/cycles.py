"""Cycles of loop programs on processors that begin one instruction at a time, such as microcontrollers.

Instructions take what the device says (`openinfer.arch.Cycles`), where compilers keep what a block loads twice in a
register and add a product to a total by one instruction. An iteration of a loop that is not written out counts, and
takes a branch. Loads of weights wait for flash as long as the device says; instructions are taken to be fetched ahead.
Four products of bytes are six instructions where the processor has none for them, and a code by integers is a call of a
function of twenty. Without floats a function of them is a call of a library, some fifty cycles. Numbers are for
choosing between layers, not for deadlines, which a board measures.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from openinfer.arch import WORD_NBYTES
from openinfer.dtypes import F64
from openinfer.estimate.sizes import Extents
from openinfer.expr.linear import linearise
from openinfer.loops import Bind, For, If, Let, Load, Lookup, Set, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.arch import Cycles, TargetInfo
    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.expr.linear import Instruction
    from openinfer.loops import Kernel, Statement, Value

FLOAT_CALL = 50
"""Cycles of a function of floats where the processor has none: GCC's library takes 30 to 80 on a Cortex-M3."""

_PRODUCTS = {"dot4": 6, "sdot4": 6}
"""Instructions of functions that few processors have: four that widen bytes in pairs, and two that multiply these."""

_CALLED = {"requantise": 20}
"""Instructions of functions that are called, far from ties: GCC 12.2 makes 18 of it for a Cortex-M3, 22 for RV32IMC,
with the call."""

_QUOTIENTS = frozenset(("div", "rem", "sqrt"))
_FREE = frozenset(("input", "literal", "to_bits", "from_bits"))
_EXTENTS = Extents({})


def iteration_cycles(cycles: Cycles) -> int:
    """Return the cycles of an iteration without its statements: an instruction counts and compares, then a branch."""
    return 1 + cycles.branch


def kernel_cycles(kernel: Kernel, machine: TargetInfo, waits: Mapping[str, int] | None = None) -> Size | None:
    """Return the cycles of a loop program; None where the length of a loop is known at run time only.

    Args:
        waits: cycles by which a load from a buffer takes longer, by its name.
    """
    return _Counting(machine, waits or {}).block(kernel.body)


class _Counting:
    def __init__(self, machine: TargetInfo, waits: Mapping[str, int]) -> None:
        self._machine = machine
        self._cycles = machine.cycles
        self._waits = waits

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
                turn = iteration_cycles(self._cycles) if bind is Bind.SERIAL else 0
                return inside if bind is Bind.LANES else times * (inside + turn)
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
        return sum(map(self._load, loads)) + sum(self._functions(instructions))

    def _load(self, load: Load) -> int:
        is_pair = load.buffer.dtype.storage_nbytes(1) > WORD_NBYTES
        return (self._cycles.load_pair if is_pair else self._cycles.load) + self._waits.get(load.buffer.name, 0)

    def _functions(self, instructions: Sequence[Instruction]) -> Iterator[int]:
        added = _added_products(instructions)
        for number, instruction in enumerate(instructions):
            is_total = instruction.function == "add" and not added.isdisjoint(instruction.operands)
            if number not in added:
                yield self._cycles.mac if is_total else self._function(instruction, instructions)

    def _function(self, instruction: Instruction, before: Sequence[Instruction]) -> int:
        function, dtype, cycles = instruction.function, instruction.dtype, self._cycles
        if function in _FREE:
            return 0
        if function == "cast":
            operand = before[instruction.operands[0]].dtype
            if operand.is_float == dtype.is_float:
                return 0
            return FLOAT_CALL if self._is_called(operand if operand.is_float else dtype) else cycles.convert
        if self._is_called(dtype):
            return FLOAT_CALL
        if function in _QUOTIENTS:
            return cycles.div
        if function == "fma":
            return cycles.fma_f32
        if function == "mul" and dtype.is_integer:
            return cycles.mul
        if function == "dot2":
            return cycles.mac
        if function in _PRODUCTS:
            return 1 if self._machine.dot4 else _PRODUCTS[function]
        return _CALLED.get(function, 1)

    def _is_called(self, dtype: DType) -> bool:
        """Whether arithmetic of a type is that of a library."""
        return dtype.is_float and (self._machine.fpu == "none" or (self._machine.fpu == "single" and dtype is F64))


def _added_products(instructions: Sequence[Instruction]) -> frozenset[int]:
    """Return the products of integers that one instruction adds to a total: one of each total, which alone reads it."""
    uses = Counter(operand for instruction in instructions for operand in instruction.operands)
    added: set[int] = set()
    for instruction in instructions:
        if instruction.function == "add" and instruction.dtype.is_integer:
            products = [number for number in instruction.operands if instructions[number].function == "mul"]
            added.update([number for number in products if uses[number] == 1][:1])
    return frozenset(added)
