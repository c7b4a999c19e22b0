"""Integer expressions inside a running program: constants, or functions that read loop indices and scalars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.symbolic import IntExpr

IntReader: TypeAlias = Callable[[], int]


@dataclass(slots=True, eq=False)
class LoopIndex:
    """The value of a loop's index in the turn that runs; calling it reads it."""

    name: str
    value: int = 0

    def __call__(self) -> int:
        return self.value


def integer(expr: IntExpr, lookup: Callable[[str], int | IntReader]) -> int | IntReader:
    """Return the value of an expression, or a function that computes it each time it is asked.

    ``lookup`` tells what a name stands for.
    """
    found = {name: lookup(name) for name in symbolic.names(expr)}
    readers = {name: value for name, value in found.items() if callable(value)}
    constants = {name: value for name, value in found.items() if not callable(value)}
    if not readers:
        return symbolic.evaluate(expr, constants.__getitem__)
    if isinstance(expr, symbolic.Name):
        return readers[expr.name]

    def evaluate() -> int:
        return symbolic.evaluate(expr, lambda name: readers[name]() if name in readers else constants[name])

    return evaluate


def value_of(found: int | IntReader) -> int:
    """Return what an expression is at this moment."""
    return found() if callable(found) else found


def values_of(found: Sequence[int | IntReader]) -> tuple[int, ...]:
    """Return what expressions are at this moment."""
    return tuple(value_of(each) for each in found)
