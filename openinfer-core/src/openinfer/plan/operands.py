"""Operands of steps: values, loop indices, registers, integer expressions of these, and entries of weight tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from openinfer.symbolic import IntExpr


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
class IndexExpr:
    """An integer expression with the binding of each of its names."""

    expr: IntExpr
    names: tuple[tuple[str, int | LoopIndex | ValueRef | Register], ...] = ()

    @property
    def values(self) -> tuple[int, ...]:
        """Numbers of the values that are read."""
        return tuple(bound.value for _, bound in self.names if isinstance(bound, ValueRef))


@dataclass(frozen=True, slots=True)
class TableRef:
    """An entry of a weight table. ``checked``: the indices may be out of range and have to be tested."""

    table: int
    indices: tuple[IndexExpr, ...]
    checked: bool


Operand: TypeAlias = ValueRef | TableRef | LoopIndex
