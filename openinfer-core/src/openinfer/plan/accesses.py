"""What a step reads and writes, as bit masks over the numbers of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.plan.operands import values_in
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ClearStep,
    ComputeStep,
    CopyStep,
    CountStep,
    EntryStep,
    EqualStep,
    FillStep,
    InputStep,
    KernelStep,
    LoadStep,
    LoopProgramStep,
    LoopStep,
    PlaceStep,
    ReturnStep,
    SetStep,
    StoreStep,
    TableRef,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.plan.steps import Epilogue, Operand, Procedure, Step


_FEW = 8
"""Values up to which each is handled on its own: that costs as much as the whole set is wide."""


def mask(values: Iterable[int]) -> int:
    """Return the set of values as bits."""
    numbers = values if isinstance(values, tuple) else tuple(values)
    if len(numbers) == 1:
        return 1 << numbers[0]
    if len(numbers) > _FEW:
        flags = bytearray((max(numbers) >> 3) + 1)
        for value in numbers:
            flags[value >> 3] |= 1 << (value & 7)
        return int.from_bytes(flags, "little")
    bits = 0
    for value in numbers:
        bits |= 1 << value
    return bits


def members(bits: int) -> Iterator[int]:
    """Yield the numbers of the values in a set, ascending."""
    if bits.bit_count() > _FEW:
        digits = f"{bits:b}"
        last = at = len(digits) - 1
        while (at := digits.rfind("1", 0, at + 1)) >= 0:
            yield last - at
            at -= 1
        return
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def operand_reads(operand: Operand | None) -> int:
    """Return the values that an operand reads, those in its indices included."""
    if isinstance(operand, ValueRef):
        return 1 << operand.value
    if isinstance(operand, TableRef):
        return _index_reads(operand.indices)
    return 0


def _index_reads(indices: Iterable[Index]) -> int:
    return mask(value for index in indices for value in values_in(index))


def operands(step: Step) -> tuple[Operand, ...]:
    """Return what a step computes with: its inputs and those of its epilogue."""
    match step:
        case ComputeStep() | LoopProgramStep():
            return step.inputs
        case KernelStep():
            return (*(i for i in step.inputs if i is not None), *_epilogue_inputs(step.epilogue))
        case CopyStep() | StoreStep():
            return (step.source,)
        case LoadStep():
            return (ValueRef(step.source),)
        case EntryStep():
            return (step.entry,)
        case _:
            return ()


def _epilogue_inputs(epilogue: Epilogue | None) -> tuple[Operand, ...]:
    return () if epilogue is None else epilogue.inputs


def reads(step: Step) -> int:
    """Return the values that a step itself reads: of a loop its bounds, of a call its condition."""
    bits = _integer_reads(step)
    if isinstance(step, CountStep | StoreStep | ClearStep):
        # What they do not write stays.
        bits |= 1 << step.target
    for operand in operands(step):
        bits |= operand_reads(operand)
    return bits


def integer_reads(step: Step) -> int:
    """Return the values whose one element a step itself needs as a number: bounds, indices, lengths and conditions."""
    bits = _integer_reads(step)
    for operand in operands(step):
        bits |= operand_reads(operand) if isinstance(operand, TableRef) else 0
    return bits


def _integer_reads(step: Step) -> int:
    if isinstance(step, CallStep):
        return 0 if step.condition is None else 1 << step.condition
    return _index_reads(expressions(step))


def expressions(step: Step) -> tuple[Index, ...]:
    """Return the integer expressions of a step, of a loop its bounds, without the indices of its operands."""
    match step:
        case ComputeStep():
            return tuple(argument.value for argument in step.arguments)
        case CountStep():
            return (step.amount,)
        case LoadStep() | ClearStep():
            return step.region.expressions()
        case StoreStep():
            return (*step.region.expressions(), *step.lengths)
        case SetStep():
            return tuple(value for _, value in step.values)
        case PlaceStep():
            return (step.value, *step.range.expressions)
        case EqualStep():
            return (step.left, step.right)
        case CopyStep(count=Index() as count) | InputStep(count=Index() as count):
            return (count,)
        case LoopStep():
            return (step.start, step.end)
        case _:
            return ()


def changed_registers(step: Step) -> Iterator[int]:
    """Yield the registers that a step itself changes."""
    match step:
        case SetStep():
            yield from (register for register, _ in step.values)
        case PlaceStep():
            yield step.register
        case LoadStep():
            yield from (register for register in (*step.lengths, step.view) if register is not None)
            yield from step.region.registers
        case StoreStep():
            yield from step.region.registers
        case ClearStep():
            yield from (register for register in step.left if register is not None)
            yield from step.region.registers
        case _:
            pass


def writes(step: Step) -> int:
    """Return the values that a step itself writes; each is written in full."""
    match step:
        case ComputeStep():
            return mask((*step.outputs, *step.temporaries) if step.temporaries else step.outputs)
        case KernelStep() | LoopProgramStep():
            return mask(step.outputs)
        case CopyStep() | FillStep() | InputStep() | LoadStep():
            return 1 << step.output
        case CountStep() | StoreStep() | ClearStep():
            return 1 << step.target
        case LoopStep() | CallStep() | ReturnStep() | BarrierStep():
            return 0
        case SetStep() | PlaceStep() | EqualStep() | EntryStep():
            return 0


def called(step: Step) -> tuple[str, ...]:
    """Return the procedures that a step itself calls."""
    if not isinstance(step, CallStep):
        return ()
    return (step.procedure,) if step.otherwise is None else (step.procedure, step.otherwise)


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps and those of loop bodies, a loop before its body."""
    stack = [iter(steps)]
    while stack:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            continue
        yield step
        if isinstance(step, LoopStep):
            stack.append(iter(step.body))


def use_counts(procedures: Iterable[Procedure]) -> dict[int, int]:
    """Return how many steps read or write each value; a step that does both counts twice."""
    counts: dict[int, int] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            for value in (*members(reads(step)), *members(writes(step))):
                counts[value] = counts.get(value, 0) + 1
    return counts


def written(procedures: Iterable[Procedure]) -> int:
    """Return every value that some step writes."""
    bits = 0
    for procedure in procedures:
        for step in walk(procedure.steps):
            bits |= writes(step)
    return bits


def touched(procedures: Iterable[Procedure]) -> int:
    """Return every value that some step reads or writes."""
    bits = 0
    for procedure in procedures:
        for step in walk(procedure.steps):
            bits |= reads(step) | writes(step)
    return bits


class Accesses:
    """What steps touch including everything that they call. ``procedures`` come callees first."""

    def __init__(self, procedures: Iterable[Procedure]) -> None:
        self._touched: dict[str, tuple[int, int]] = {}
        for procedure in procedures:
            self._touched[procedure.name] = self._union(procedure.steps)

    def of(self, step: Step) -> tuple[int, int]:
        """Return the values that a step reads and those that it writes, with loop bodies and called procedures."""
        return self._union((step,))

    def _union(self, steps: Iterable[Step]) -> tuple[int, int]:
        read = written = 0
        for step in walk(steps):
            read |= reads(step)
            written |= writes(step)
            for name in called(step):
                read |= self._touched[name][0]
                written |= self._touched[name][1]
        return read, written
