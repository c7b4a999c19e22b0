"""Integer expressions of a plan as functions of the host: loop bounds, lengths, places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer.affine import Index
from openinfer.dims import evaluated
from openinfer.plan.operands import alone, symbols
from openinfer.plan.steps import LoopIndex, Register
from openinfer.symbolic import INT64, DivisionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.plan.steps import ValueRef

    Reader: TypeAlias = Callable[[], int]
    IndexReader: TypeAlias = Callable[[], Index]


class StepFaultError(Exception):
    """Ends a step.

    Attributes:
        code: as `openinfer.simulate.devices.programs.Fault` has it.
        node: number of the statement; None until it is known.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.node: int | None = None


class Integers(Protocol):
    """What integer expressions read.

    Attributes:
        registers: by number; those of ``pending`` hold something else.
        loops: the indices of loops, by number.
        deferrable: registers that kernels may count.
        pending: registers that the host does not know, as indices over such counts.
    """

    registers: list[int]
    loops: dict[int, int]
    deferrable: frozenset[int]
    pending: dict[int, Index]

    def register(self, number: int) -> int:
        """Return what a register holds; the device finishes first where it is pending."""
        ...

    def scalar(self, value: int) -> int:
        """Return the one element of a value."""
        ...


def reader(index: Index, integers: Integers) -> Reader:
    """Return a function that evaluates an expression.

    It raises StepFaultError, ``out-of-range``, where a division has no value, or 64 bits do not hold the result.
    """
    value, meaning = index.constant, alone(index)
    if value is not None:
        return lambda: value
    if meaning is not None:
        return _bound(meaning, integers)
    bound = {symbol.name: _bound(symbol.operand, integers) for symbol in symbols(index)}
    return _checked(lambda: evaluated(index, {name: read() for name, read in bound.items()}))


def _bound(meaning: LoopIndex | ValueRef | Register, integers: Integers) -> Reader:
    if isinstance(meaning, LoopIndex):
        loops, loop = integers.loops, meaning.loop
        return lambda: loops[loop]
    if isinstance(meaning, Register):
        registers, number, register = integers.registers, meaning.number, integers.register
        return (lambda: register(number)) if number in integers.deferrable else (lambda: registers[number])
    value, scalar = meaning.value, integers.scalar
    return lambda: scalar(value)


def index_reader(index: Index, integers: Integers) -> IndexReader:
    """Return a function that evaluates a polynomial over what registers are pending for."""
    bound = {symbol: _index_of(symbol.operand, integers) for symbol in symbols(index)}
    return lambda: index.substituted({symbol: read() for symbol, read in bound.items()})


def _index_of(meaning: LoopIndex | ValueRef | Register, integers: Integers) -> IndexReader:
    read = _bound(meaning, integers)
    if not isinstance(meaning, Register):
        return lambda: Index.of(read())
    number, pending = meaning.number, integers.pending

    def found() -> Index:
        index = pending.get(number)
        return Index.of(read()) if index is None else index

    return found


def _checked(read: Reader) -> Reader:
    def checked() -> int:
        try:
            index = read()
        except DivisionError as error:
            raise StepFaultError("out-of-range", str(error)) from error
        if index not in INT64:
            raise StepFaultError("out-of-range", f"an index of {index} is more than 64 bits hold")
        return index

    return checked
