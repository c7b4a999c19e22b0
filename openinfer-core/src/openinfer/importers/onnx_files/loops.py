"""Loops of a program that is being made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.values import Cache, Call, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.source import Payload


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A weight of each iteration.

    Attributes:
        first: that of the first iteration, which the body of the loop reads.
        pattern: names in the container, with ``{l}`` for the iteration.
        payloads: numbers by iteration.
    """

    first: Value
    pattern: str
    payloads: tuple[Payload, ...]


@dataclass(slots=True, eq=False)
class Carried:
    """A value that each iteration takes from the one before.

    Attributes:
        initial: what the first iteration takes.
        before: what the body reads: the initial value itself, or one that replaces it.
        written: what the body writes.
        after: its value after the last iteration.
        stem: what it is called; empty for a name that the model has for it.
    """

    initial: Value
    before: Value
    written: Value
    after: Value
    stem: str = ""


@dataclass(slots=True, eq=False)
class Loop:
    """Turns of a body.

    Attributes:
        name: what the loop is called.
        index: name of its index; empty where the body does not read it.
        count: turns; a `Value` where the running program knows them.
        title: what a comment says of it.
        caches: caches of the first turn, of which each turn has its own.
    """

    name: str
    index: str
    calls: list[Call]
    count: Size | Value
    carried: list[Carried]
    tables: tuple[Table, ...] = ()
    title: str = ""
    caches: tuple[Cache, ...] = ()


@dataclass(slots=True, eq=False)
class LoopCall(Call):
    """A loop as one call, for those who only ask what is read and written."""

    loop: Loop | None = field(default=None)

    def reads(self) -> Iterator[Value]:
        """Yield every value from outside of the loop that it reads."""
        if self.loop is None:
            return
        inner = {id(carried.before) for carried in self.loop.carried if carried.before is not carried.initial}
        inner |= {id(value) for call in self.loop.calls for value in call.outputs}
        if isinstance(self.loop.count, Value):
            yield self.loop.count
        yield from (carried.initial for carried in self.loop.carried)
        for call in self.loop.calls:
            yield from (value for value in call.reads() if id(value) not in inner)
        yield from (carried.written for carried in self.loop.carried if id(carried.written) not in inner)

    def remap(self, of: Callable[[Value], Value]) -> None:
        """Replace values that the loop reads."""
        if self.loop is None:
            return
        for carried in self.loop.carried:
            carried.initial = of(carried.initial)
        if isinstance(self.loop.count, Value):
            self.loop.count = of(self.loop.count)
        for call in self.loop.calls:
            call.remap(of)


def loop_call(loop: Loop, number: int, stage: str) -> LoopCall:
    """Return a loop as a call; ``number`` sets it apart from every other loop."""
    outputs = tuple(carried.after for carried in loop.carried)
    return LoopCall("loop", (), {"loop": number}, outputs, stage=stage, loop=loop)


def needed(calls: Sequence[Call], results: Sequence[Value]) -> list[Call]:
    """Return the calls that results depend on, in their order."""
    read = {id(value) for value in results}
    kept: list[Call] = []
    for call in reversed(calls):
        if any(id(value) in read for value in call.outputs):
            kept.append(call)
            read.update(id(value) for value in call.reads())
    return kept[::-1]
