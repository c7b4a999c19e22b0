"""Integer expressions of steps: which there are, and what in them is known when commands are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import expressions, operands
from openinfer.plan.operands import symbols, values_in
from openinfer.plan.steps import LoopIndex, TableRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from openinfer.affine import Index
    from openinfer.plan.steps import Step


def integers_of(step: Step) -> Iterator[Index]:
    """Yield the integer expressions that a step itself evaluates: of a loop those of its bounds."""
    for operand in operands(step):
        if isinstance(operand, TableRef):
            yield from operand.indices
    yield from expressions(step)


def values_read(step: Step) -> Iterator[int]:
    """Yield the values that the integer expressions of a step read."""
    for index in integers_of(step):
        yield from values_in(index)


def is_known(index: Index, loops: Collection[int]) -> bool:
    """Whether an expression has numbers and the indices of these loops alone."""
    read = (symbol.operand for symbol in symbols(index))
    return all(isinstance(operand, LoopIndex) and operand.loop in loops for operand in read)
