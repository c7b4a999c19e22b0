"""Integer expressions of a plan as functions of the host: loop bounds, lengths, places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer.dims import evaluated
from openinfer.plan.operands import alone, symbols
from openinfer.plan.steps import LoopIndex, Register
from openinfer.symbolic import INT64, DivisionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.affine import Index
    from openinfer.plan.steps import ValueRef

    Reader: TypeAlias = Callable[[], int]


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
        registers: by number.
        loops: the indices of loops, by number.
    """

    registers: list[int]
    loops: dict[int, int]

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
        registers, number = integers.registers, meaning.number
        return lambda: registers[number]
    value, scalar = meaning.value, integers.scalar
    return lambda: scalar(value)


def _checked(read: Reader) -> Reader:
    def checked() -> int:
        try:
            found = read()
        except DivisionError as error:
            raise StepFaultError("out-of-range", str(error)) from error
        if found not in INT64:
            raise StepFaultError("out-of-range", f"an index of {found} is more than 64 bits hold")
        return found

    return checked
