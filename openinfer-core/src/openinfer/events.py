"""Events of a trace: one for each node that ran (runtime specification, section 10)."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

KIND_OF_NODE: Mapping[str, str] = MappingProxyType({"Op": "OpExecute"})
"""Kinds of events that are not called like the node class; all others have its name."""


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
        start_ns: when the node started, in nanoseconds since the executor was made.
        track: ``"entry"``, or the consumer block in which the node ran.
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
    track: str = "entry"

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


def split_duration(nanoseconds: int) -> tuple[int, int, int]:
    """Return a duration as whole milliseconds, remaining microseconds and remaining nanoseconds."""
    microseconds, rest = divmod(nanoseconds, 1000)
    milliseconds, remaining = divmod(microseconds, 1000)
    return milliseconds, remaining, rest
