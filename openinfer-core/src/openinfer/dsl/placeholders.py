"""Placeholders for malformed heads of blocks, loops and scopes, so that their bodies are still read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.dsl.grammar import NAME
from openinfer.dsl.syntax import LoopStatement, Place, ScopeStatement, Statement, Word
from openinfer.symbolic import Const

if TYPE_CHECKING:
    from openinfer.dsl.syntax import Setting

_BLOCK = re.compile(rf"block\s+({NAME})")
_LOOP = re.compile(rf"loop\s+({NAME})")
_INDEX = re.compile(rf"\(\s*({NAME})\s+in\b")


def head_of_block(text: str, start: int) -> tuple[Word, tuple[Setting, ...], Place]:
    """Return name, hints and place of a block with a wrong head; the name is empty if it is unknown."""
    named = _BLOCK.match(text, start)
    if named is None:
        return Word("", Place(start, start)), (), Place(start, start)
    return Word(named[1], Place(named.start(1), named.end(1))), (), Place(start, named.end())


def head_of_statement(rule: str, text: str, start: int, end: int) -> Statement:
    """Return a loop or scope with a wrong head that ends in front of ``end``; a loop runs zero times."""
    place = Place(start, start + len(text[start : end - 1].rstrip()))
    if rule == "scope":
        return Statement(ScopeStatement("", ()), (), place)
    named, index = _LOOP.match(text, start), _INDEX.search(text, start, end)
    body = LoopStatement(named[1] if named else "", index[1] if index else "", Const(0), Const(0), ())
    return Statement(body, (), place)
