"""What earlier findings leave open, so that a later check does not report their consequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """What is not known of a graph because parts of its program are wrong.

    Attributes:
        names: variables that may be declared in a way that could not be read, or are declared wrongly.
        blocks: blocks that may exist though they are not in the graph.
        nodes: numbers of statements of which something wrong was reported.
        lost: first words of the statements that could not be read, by block. The word ``""`` stands for a statement of
            any kind, the block ``""`` for text that may have been any block.
    """

    names: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    nodes: frozenset[int] = frozenset()
    lost: Mapping[str, frozenset[str]] = field(default_factory=dict[str, "frozenset[str]"])

    def may_miss(self, *words: str, block: str | None = None) -> bool:
        """Return whether an unreadable statement, in ``block`` or else anywhere, may start with one of ``words``."""
        blocks = self.lost if block is None else (block, "")
        words_lost = [self.lost[name] for name in blocks if name in self.lost]
        return any("" in lost or not lost.isdisjoint(words) for lost in words_lost)

    def may_be_block(self, name: str) -> bool:
        """Return whether a block that the graph does not have may be in text that could not be read."""
        return name in self.blocks or "" in self.lost


NO_DOUBTS = Doubts()
