"""Identifiers for languages of the C family, made from names that may hold anything."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LONGEST = 40
"""Characters of a name that are kept; C99 promises to tell apart identifiers of 63 characters."""

_PREFIX = re.compile(r"[a-z]+_")
_FOREIGN = re.compile(r"[^A-Za-z0-9]+")

_WORDS = """
auto bool break case char complex const continue default do double else enum extern float for goto if imaginary inline
int long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while
asm catch class delete export friend mutable namespace new operator private protected public template this throw try
typename using virtual and or not xor true false null main exit abort malloc calloc realloc free memcpy memset memmove
printf fprintf puts exp log pow sin cos tan sqrt floor ceil round rint fabs fmod erf tanh attribute buffer uniform
varying in out inout layout shared coherent precise sampler texture discard invariant flat smooth centroid patch sample
lowp mediump highp precision common partition active filter input output vec mat
"""

RESERVED = frozenset(_WORDS.split())
"""Words that mean something in C, C++, GLSL or the C library, in lower case."""


class Identifiers:
    """Hands out identifiers that differ, also for compilers and linkers that ignore case.

    Args:
        taken: identifiers that exist already.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {name.lower() for name in taken} | RESERVED

    def name(self, prefix: str, raw: str) -> str:
        """Return ``prefix`` and the letters and digits of ``raw``, with a number where that is taken.

        The result has only letters, digits and single underscores between them, begins with ``prefix`` (lower-case
        letters and an underscore) and is not a reserved word, whatever ``raw`` is.
        """
        if not _PREFIX.fullmatch(prefix):
            raise ValueError(f"prefix {prefix!r} is not lower-case letters and an underscore")
        kept = _FOREIGN.sub("_", raw).strip("_")[:LONGEST].rstrip("_")
        base = f"{prefix}{kept or 'x'}"
        free = next(candidate for candidate in _candidates(base) if candidate.lower() not in self._taken)
        self._taken.add(free.lower())
        return free


def _candidates(base: str) -> Iterator[str]:
    yield base
    for number in count(2):
        yield f"{base}_{number}"
