"""A program cut into statements and declarations, however broken it is: what an editor sees while one types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dsl.tokens import Token


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a program up to ``;``, to the ``{`` of a body, or to a ``}``: ``end`` is that mark, "" at the end.

    ``start`` and ``stop`` are the offsets between which a cursor is inside the piece.
    """

    tokens: tuple[Token, ...]
    start: int
    stop: int
    end: str

    @property
    def first(self) -> str:
        """The first word, "" if there is none."""
        return self.tokens[0].text if self.tokens else ""


def segments_of(tokens: Sequence[Token], length: int) -> Iterator[Segment]:
    """Yield the pieces of a program of ``length`` characters in order; braces of ``with { … }`` cut nothing."""
    start = first = 0
    in_hints = False
    for place, token in enumerate(tokens):
        if token.kind != "mark" or token.text not in ";{}":
            continue
        if token.text == "{" and place > first and tokens[place - 1].text == "with":
            in_hints = True
        elif token.text == "}" and in_hints:
            in_hints = False
        else:
            in_hints = False
            yield Segment(tuple(tokens[first:place]), start, token.start, token.text)
            start, first = token.end, place + 1
    yield Segment(tuple(tokens[first:]), start, length, "")
