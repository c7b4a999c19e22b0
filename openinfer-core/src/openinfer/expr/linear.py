"""Straight-line form of an expression: one instruction per distinct subexpression, operands first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from openinfer.expr.tree import Apply, Expr, Input, Literal, Size

if TYPE_CHECKING:
    from collections.abc import Hashable

    from openinfer.dtypes import DType
    from openinfer.scalars import Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One step of a program.

    ``function`` is ``"input"`` (``index`` counts), ``"literal"`` (``value`` counts), ``"size"`` (``size`` counts) or a
    function of `expr.tree`, whose ``operands`` are numbers of earlier instructions.
    """

    function: str
    dtype: DType
    operands: tuple[int, ...] = ()
    index: int = -1
    value: Scalar | None = None
    size: Hashable = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and _key(self) == _key(other)

    def __hash__(self) -> int:
        return hash(_key(self))


@dataclass(frozen=True, slots=True)
class Program:
    """Instructions in order of evaluation; the last one is the result. Equal meaning and form compare equal."""

    instructions: tuple[Instruction, ...]

    def __hash__(self) -> int:
        # Programs are in the keys of loop programs: what tells nearly all of them apart is enough.
        return hash(tuple([(i.function, i.operands) for i in self.instructions]))

    @property
    def inputs(self) -> tuple[int, ...]:
        """Numbers of the inputs that are read, ascending."""
        return tuple(sorted({i.index for i in self.instructions if i.function == "input"}))

    @property
    def sizes(self) -> tuple[Hashable, ...]:
        """The sizes that are known at run time only, in the order of their first use."""
        return tuple(i.size for i in self.instructions if i.function == "size")


@lru_cache(maxsize=4096)
def linearise(expr: Expr) -> Program:
    """Return the straight-line form, with structurally equal subexpressions merged."""
    numbers: dict[int, int] = {}
    numbered: dict[tuple[object, ...], int] = {}
    instructions: list[Instruction] = []
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in numbers:
            continue
        if isinstance(node, Apply) and not ready:
            stack.append((node, True))
            stack += [(arg, False) for arg in reversed(node.args)]
            continue
        instruction = _instruction(node, numbers)
        key = _key(instruction)
        if key not in numbered:
            numbered[key] = len(instructions)
            instructions.append(instruction)
        numbers[id(node)] = numbered[key]
    return Program(tuple(instructions))


def _instruction(node: Expr, numbers: dict[int, int]) -> Instruction:
    if isinstance(node, Input):
        return Instruction("input", node.dtype, index=node.index)
    if isinstance(node, Literal):
        return Instruction("literal", node.dtype, value=node.value)
    if isinstance(node, Size):
        return Instruction("size", node.dtype, size=node.value)
    return Instruction(node.function, node.dtype, tuple(numbers[id(arg)] for arg in node.args))


def _key(instruction: Instruction) -> tuple[object, ...]:
    """Return what makes instructions equal: zeros differ by sign, NaNs are one."""
    value = instruction.value
    shown: object = value
    if isinstance(value, float):
        shown = "nan" if math.isnan(value) else (value, math.copysign(1.0, value))
    return (
        instruction.function,
        instruction.dtype.name,
        instruction.operands,
        instruction.index,
        instruction.size,
        type(value),
        shown,
    )
