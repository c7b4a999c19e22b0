"""Events of a trace: one for each node that ran (``specification: runtime.traces``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND_OF_NODE: Mapping[str, str] = MappingProxyType({"Op": "OpExecute"})
"""Kinds of events that are not called like the node class; all others have its name."""


class Scope(NamedTuple):
    """A run of a block or of a loop, in which nodes ran. Every run is an object of its own.

    Attributes:
        name: the block or the loop.
        parent: the run around it; None for ``entry`` and for consumer blocks.
        turn: the iteration of its parent in which it ran: the value of the index; None if the parent is not a loop.
        counter: name of the index of a loop; ``""`` for blocks.
    """

    kind: Literal["block", "loop"]
    name: str
    parent: Scope | None = None
    turn: int | None = None
    counter: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """A node that has run.

    Attributes:
        kind: ``"OpExecute"`` for an operator, else the name of the node class, such as ``"Assign"``.
        node_index, node_uuid: place of the node in the graph.
        block_name: block that holds the node, also for nodes in loops.
        node_desc: the statement, with the indices of prefix tables resolved.
        op_name: canonical name of the operator, ``""`` for other nodes.
        params, output: what went in and came out, by name; what they hold depends on the kind.
        micros_parts: duration as whole milliseconds, remaining microseconds and remaining nanoseconds; zeros unless
            this is an operator and the timer was on.
        start_ns: when the node started, in nanoseconds since the executor was made; 0 for an untraced `step`.
        device_start_ns: when the device started to work for the operator, likewise, if it was timed by the clock of the
            device: that says how long it took, and it ended before the host had waited for it. Else None.
        track: ``"entry"``, or the consumer block in which the node ran.
        scope: the run of a block or of a loop that the node was part of; None where that is not known.
        turn: the value of the loop's index where the scope is a loop.
    """

    kind: str
    node_index: int
    node_uuid: str
    block_name: str
    node_desc: str
    op_name: str = ""
    params: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    micros_parts: tuple[int, int, int] = (0, 0, 0)
    start_ns: int = 0
    device_start_ns: int | None = None
    track: str = "entry"
    scope: Scope | None = field(default=None, compare=False, repr=False)
    turn: int | None = field(default=None, compare=False, repr=False)

    @property
    def micros(self) -> str:
        """The duration as text, such as ``"0ms 31us 788ns"``."""
        return "{}ms {}us {}ns".format(*self.micros_parts)

    @property
    def duration_ns(self) -> int:
        """The duration in nanoseconds."""
        milliseconds, microseconds, nanoseconds = self.micros_parts
        return (milliseconds * 1000 + microseconds) * 1000 + nanoseconds

    def __str__(self) -> str:
        return f"{self.node_index} {self.node_uuid} [{self.block_name}] -- {self.node_desc} -- ({self.micros})"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Memory that holds values after a node.

    Attributes:
        node_index, node_desc: the node that has run.
        time_ns: when it started, in nanoseconds since the executor was made.
        live: bytes by kind of memory: ``"dynamic"``, ``"volatile"``, ``"constant"``, ``"persistent"``, ``"temporary"``.
    """

    node_index: int
    node_desc: str
    time_ns: int
    live: Mapping[str, int]

    @property
    def total(self) -> int:
        """Bytes of all kinds."""
        return sum(self.live.values())


def split_duration(nanoseconds: int) -> tuple[int, int, int]:
    """Return a duration as whole milliseconds, remaining microseconds and remaining nanoseconds."""
    microseconds, rest = divmod(nanoseconds, 1000)
    milliseconds, remaining = divmod(microseconds, 1000)
    return milliseconds, remaining, rest
