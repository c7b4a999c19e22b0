"""A text cut into its heads, declarations and statements, and into gaps where nothing could be made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from openinfer.dsl.syntax import Gap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dsl.tokens import Scan, Token


class Piece(NamedTuple):
    """A declaration, a statement, the head of a section, block, loop or scope, the ``}`` of one, or a gap.

    Attributes:
        rule: the rule of the grammar that it matches; of a gap the one that it should have matched, ``section`` for
            what starts none, and ``""`` for a statement of an unknown kind.
        start, end: its characters; white space and comments belong to the piece that follows them.
        section: its memory section, ``block`` inside a block, or ``""`` at the top.
        block: the name of the block around it.
        is_gap: it could not be read.
    """

    rule: str
    start: int
    end: int
    section: str
    block: str
    is_gap: bool


NOWHERE = ("", "")
"""The section and the block at the top of a text."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A text without comments, and the ends of its pieces: rule, end, whether it is a gap, section and block around."""

    scan: Scan
    marks: list[tuple[str, int, bool, tuple[str, str]]]

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces in order: every character is in one of them."""
        start = 0
        for rule, end, is_gap, (section, block) in self.marks:
            yield Piece(rule, start, max(start, end), section, block, is_gap)
            start = max(start, end)

    def gaps(self) -> tuple[Gap, ...]:
        """Return what could not be read."""
        text = self.scan.text
        return tuple(
            Gap(piece.rule, piece.block, text[piece.start : piece.end]) for piece in self.pieces() if piece.is_gap
        )

    def with_tokens(self, tokens: Sequence[Token]) -> Iterator[tuple[Piece, Sequence[Token]]]:
        """Yield every piece with those of the text's tokens that are in it."""
        first = 0
        for piece in self.pieces():
            last = first
            while last < len(tokens) and tokens[last].start < piece.end:
                last += 1
            yield piece, tokens[first:last]
            first = last
