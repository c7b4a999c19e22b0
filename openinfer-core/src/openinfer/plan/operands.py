"""Operands of steps: values, loop indices, registers, integer expressions of these, and entries of weight tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Interval
from openinfer.dims import Knowledge, Let, Signed, every_symbol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True)
class ValueRef:
    """A value of the plan."""

    value: int


@dataclass(frozen=True, slots=True)
class LoopIndex:
    """The index of the loop of that number: an i64 scalar."""

    loop: int


@dataclass(frozen=True, slots=True)
class Register:
    """The register of that number (`openinfer.plan.values.PlanRegister`): a size that is known at run time only."""

    number: int


@dataclass(frozen=True, slots=True)
class Symbol(Signed):
    """What an integer expression of a plan, which is an `Index`, reads; its name is its own in the plan."""

    operand: LoopIndex | ValueRef | Register = field(kw_only=True)

    def __hash__(self) -> int:
        return hash(self.name)


def symbols(index: Index) -> Iterator[Symbol]:
    """Yield what an expression reads, in no order."""
    if index.constant is None:
        yield from (var for var in every_symbol(index) if isinstance(var, Symbol))


def has_wide_number(index: Index) -> bool:
    """Return whether a number in an expression needs more than 64 bits, so that no host computes with it."""
    parts = (part for var in index.variables() if isinstance(var, Let) for part in var.parts)
    return any(abs(factor) >= 2**63 for _, factor in index.terms) or any(map(has_wide_number, parts))


def values_in(index: Index) -> Iterator[int]:
    """Yield the numbers of the values that an expression reads."""
    yield from (symbol.operand.value for symbol in symbols(index) if isinstance(symbol.operand, ValueRef))


def alone(index: Index) -> LoopIndex | ValueRef | Register | None:
    """Return the operand that an expression is; None for a number, and for what is computed."""
    symbol = next(symbols(index), None)
    return symbol.operand if symbol is not None and index == Index.of(symbol) else None


def interval(index: Index, loops: Mapping[int, Interval]) -> Interval:
    """Return the smallest and the largest value of an expression, where loop indices have these."""
    if index.constant is not None:
        return Interval(index.constant, index.constant)
    read = ((symbol.name, symbol.operand) for symbol in symbols(index))
    bounds = {name: loops[operand.loop] for name, operand in read if isinstance(operand, LoopIndex)}
    return Knowledge(bounds).interval(index)


@dataclass(frozen=True, slots=True)
class TableRef:
    """An entry of a weight table. ``checked``: the indices may be out of range and have to be tested."""

    table: int
    indices: tuple[Index, ...]
    checked: bool


Operand: TypeAlias = ValueRef | TableRef | LoopIndex
