"""What a model keeps between steps under one name, as callers reach it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, I64
from openinfer.ir.types import TensorType
from openinfer.synth.c_host.ports import items, port_context
from openinfer.synth.c_text import comment, string_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.values import PlanState
    from openinfer.synth.c_host.port_names import PortNames

REGISTER_WIDTH = 8
"""Bytes of the integer that says how far a cache has grown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What is kept between steps under one name: a persistent variable, or how far a cache has grown.

    Attributes:
        member: name of the member of the structure, or of the macro of its place where `memory` is not None.
        memory: name of the memory outside of the structure that contains it; None: the structure.
        offset: bytes from the start of that memory.
        constant: name of its constant.
        macro: the macro of its size.
        most: largest value that an item may have; -1: any bits are a value.
        is_scalar: whether its member is one integer, not an array.
        port: what templates say of the file of its value.
    """

    name: str
    kind: str
    member: str
    memory: str | None
    offset: int
    constant: str
    macro: str
    comment: str
    literal: str
    width: int
    count: int
    most: int
    is_scalar: bool
    port: Mapping[str, object]

    @property
    def nbytes(self) -> int:
        """Bytes of all items."""
        return self.width * self.count

    @property
    def place(self) -> str:
        """The expression of where it lies in its memory, in bytes."""
        return f"offsetof(struct model, {self.member})" if self.memory is None else str(self.offset)

    @property
    def address(self) -> str:
        """The expression of its first item in an instance ``model``."""
        return f"model.{self.member}" if self.memory is None else f"(model.{self.memory}.bytes + {self.offset})"


def _in_structure(_state: PlanState) -> tuple[str | None, int]:
    return None, 0


def variables_of(
    plan: ExecutionPlan, names: PortNames, place: Callable[[PlanState], tuple[str | None, int]] = _in_structure
) -> tuple[Variable, ...]:
    """Return the variables of a plan: its states, then the registers that are kept.

    Args:
        place: returns the name of the memory that holds a state, None for the structure, and the bytes before it there.
    """
    found: list[Variable] = []

    def add(
        name: str,
        type: TensorType,
        member: str,
        width: int,
        count: int,
        most: int,
        *,
        at: tuple[str | None, int] = (None, 0),
        is_scalar: bool = False,
    ) -> None:
        constant, (memory, offset) = names.variables[len(found)], at
        found.append(
            Variable(
                name=name,
                kind=str(type),
                member=member,
                memory=memory,
                offset=offset,
                constant=f"MODEL_VARIABLE_{constant}",
                macro=f"MODEL_STATE_{constant}_BYTES",
                comment=comment(f"{name}: {type}"),
                literal=string_literal(name),
                width=width,
                count=count,
                most=most,
                is_scalar=is_scalar,
                port=port_context(name, type, member),
            )
        )

    for state in plan.states:
        most, member = 1 if state.type.dtype is BOOL else -1, names.states[state.number]
        add(state.name, state.type, member, state_width(state), items(state.type), most, at=place(state))
    for register in plan.registers:
        if register.is_kept:
            member = names.registers[register.number]
            add(register.name, TensorType(I64, ()), member, REGISTER_WIDTH, 1, register.most, is_scalar=True)
    return tuple(found)


def state_width(state: PlanState) -> int:
    """Return the bytes of an item of a state."""
    return max(state.type.dtype.bits // 8, 1)
