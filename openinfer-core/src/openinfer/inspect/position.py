"""The position of a step: the statement that runs next, and the blocks and loops around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from openinfer.ir.nodes import Op
from openinfer.simulate.program.items import Action
from openinfer.simulate.program.recording import node_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.simulate.program.failures import Place
    from openinfer.simulate.program.machine import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A block or loop that is being run.

    Attributes:
        name: the block, or the loop.
        opener: the branch or loop statement that it was entered by; None for ``entry``.
        index, value, end: of a loop: the name of its index, what it is in this turn, and where it ends (not included).
    """

    kind: Literal["block", "loop"]
    name: str
    opener: Node | None = None
    index: str = ""
    value: int = 0
    end: int = 0

    def __str__(self) -> str:
        if self.kind == "block":
            return f"block {self.name}"
        return f"loop {self.name} ({self.index} = {self.value}, to {self.end})"


def upcoming(frames: Sequence[Frame]) -> Place | None:
    """Return the statement that runs next; None when the step is over."""
    return _place(frames[-1], frames[-1].position) if frames else None


def is_transfer(frames: Sequence[Frame]) -> bool:
    """Whether what runs next only brings a value of an operator to or from the device that it is placed on."""
    item = frames[-1].items[frames[-1].position] if frames else None
    return isinstance(item, Action) and isinstance(item.place.node.kind, Op) and not item.op


def levels(frames: Sequence[Frame]) -> tuple[Level, ...]:
    """Return the running blocks and loops, outermost first."""
    found: list[Level] = []
    outer: Frame | None = None
    for frame in frames:
        opener = None if outer is None else _place(outer, outer.position - 1).node
        found.append(_level(frame, opener))
        outer = frame
    return tuple(found)


def loop_indices(frames: Sequence[Frame]) -> dict[str, int]:
    """Return the loop indices that statements see at this moment, by name: those of the innermost block."""
    found: dict[str, int] = {}
    for frame in reversed(frames):
        if frame.loop is None:
            break
        found.setdefault(frame.loop.index.name, frame.index)
    return found


def indices_around(event: TraceEvent) -> dict[str, int]:
    """Return the loop indices that a statement saw when it ran, by name."""
    found: dict[str, int] = {}
    scope, turn = event.scope, event.turn
    while scope is not None and scope.kind == "loop" and turn is not None:
        found.setdefault(scope.counter, turn)
        scope, turn = scope.parent, scope.turn
    return found


def _level(frame: Frame, opener: Node | None) -> Level:
    if frame.loop is None:
        return Level(kind="block", name=_place(frame, 0).block, opener=opener)
    loop = frame.loop
    name, index = loop.name, loop.index.name
    return Level(kind="loop", name=name, opener=opener, index=index, value=frame.index, end=frame.end)


def _place(frame: Frame, position: int) -> Place:
    return node_of(frame.items[position]).place
