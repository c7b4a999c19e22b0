"""What the pieces of a text that could not be read may have said."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.dsl.grammar import STATEMENTS
from openinfer.ir.doubts import Doubts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from openinfer.dsl.syntax import Gap

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Blanks up to a line end and names from their first letter on: no character is read again from each place before it.
_FIRST_WORD = re.compile(r"(?:^|[;{}\n])[ \t\r\f\v]*+([A-Za-z_][A-Za-z0-9_]*)")
_ASSIGNED = re.compile(r"\bassign\s+([A-Za-z_][A-Za-z0-9_]*)|(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*+)\s*+[:=]")
_WRITTEN = re.compile(r">>?\s*+([A-Za-z_][A-Za-z0-9_]*+(?:\s*+,\s*+[A-Za-z_][A-Za-z0-9_]*+)*+)")
_BLOCK = re.compile(r"\bblock\s+([A-Za-z_][A-Za-z0-9_]*)")


def doubts_of(gaps: Iterable[Gap], declared: Set[str]) -> Doubts:
    """Return what is open because of text that could not be read.

    What a statement writes may be a temporary, unless it is among the names ``declared``.
    """
    names: set[str] = set()
    blocks: set[str] = set()
    lost: dict[str, frozenset[str]] = {}
    for gap in gaps:
        names.update(_declared(gap))
        names.update(name for name in _written(gap) if name not in declared)
        blocks.update(_BLOCK.findall(gap.text))
        if gap.rule != "declaration":
            lost[gap.block] = lost.get(gap.block, frozenset()) | _lost(gap)
    return Doubts(names=frozenset(names), blocks=frozenset(blocks), lost=lost)


def _declared(gap: Gap) -> Iterator[str]:
    if gap.rule in ("declaration", "section"):
        yield from _FIRST_WORD.findall(gap.text)
    if gap.rule == "loop":
        yield from _WORD.findall(gap.text)
    for assigned, typed in _ASSIGNED.findall(gap.text):
        yield assigned or typed


def _written(gap: Gap) -> Iterator[str]:
    for outputs in _WRITTEN.findall(gap.text):
        yield from _WORD.findall(outputs)


def _lost(gap: Gap) -> frozenset[str]:
    if gap.rule in ("", "section"):
        return frozenset({""})
    return frozenset({gap.rule.partition("_")[0], *_WORD.findall(gap.text)}.intersection(STATEMENTS))
