"""The words of the language for highlighters, from the grammar and the tables that the parser itself uses."""

from __future__ import annotations

import re

from openinfer.dsl.grammar import CACHE_VERBS, FLOAT, INTEGER, NAME, STATEMENTS
from openinfer.dtypes import BY_NAME
from openinfer.ir.graph import MemoryKind
from openinfer.ir.language import ATTRIBUTES, DTYPE_SETTINGS

__all__ = [
    "ATTRIBUTES",
    "CACHE_VERBS",
    "DTYPES",
    "DTYPE_SETTINGS",
    "FLOAT",
    "INTEGER",
    "MEMORY",
    "NAME",
    "STATEMENTS",
    "any_of",
]

MEMORY = (*(kind.value for kind in MemoryKind), "constants")
"""First words of memory sections."""

DTYPES = tuple(BY_NAME)


def any_of(words: tuple[str, ...]) -> str:
    """Return a regular expression for one of several words, whole."""
    return rf"(?:{'|'.join(sorted(map(re.escape, words), key=lambda word: (-len(word), word)))})(?![A-Za-z0-9_])"
