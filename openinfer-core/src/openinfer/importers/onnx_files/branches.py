"""Branches of a program that is being made: what runs where a condition holds, and what runs otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.loops import needed
from openinfer.importers.onnx_files.values import Call, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(slots=True, eq=False)
class Side:
    """What one side of a branch computes.

    Attributes:
        name: what its block is called.
        results: what it gives, in the order of the branch's outputs; made by its calls or outside of them.
    """

    name: str
    calls: list[Call]
    results: list[Value]

    def reads(self) -> Iterator[Value]:
        """Yield every value from outside that it reads."""
        inner = {id(value) for call in self.calls for value in call.outputs}
        for call in self.calls:
            yield from (value for value in call.reads() if id(value) not in inner)
        yield from (value for value in self.results if id(value) not in inner)


@dataclass(slots=True, eq=False)
class BranchCall(Call):
    """A branch as one call; its input is the condition."""

    sides: tuple[Side, ...] = field(default=())

    def reads(self) -> Iterator[Value]:
        """Yield the condition, and every outer value that a branch reads."""
        yield from (value for value in self.inputs if value is not None)
        for side in self.sides:
            yield from side.reads()

    def remap(self, of: Callable[[Value], Value]) -> None:
        """Replace values that the branch reads."""
        self.inputs = tuple(None if value is None else of(value) for value in self.inputs)
        for side in self.sides:
            for call in side.calls:
                call.remap(of)
            side.results = [of(value) for value in side.results]


def branch_call(condition: Value, then: Side, otherwise: Side, number: int, stage: str) -> BranchCall:
    """Return a branch whose sides give results of equal types; ``number`` sets it apart from every other branch."""
    outputs = tuple(Value("", value.dtype, value.dims) for value in then.results)
    for side in (then, otherwise):
        side.calls = needed(side.calls, side.results)
    return BranchCall("branch", (condition,), {"branch": number}, outputs, stage=stage, sides=(then, otherwise))
