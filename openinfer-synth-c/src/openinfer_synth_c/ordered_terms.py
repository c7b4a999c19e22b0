"""Terms that are added to the same totals one after another, on cores without registers for several.

GCC 12 makes one expression of all that statements next to each other add to a total. Where several terms are written
out, each of which is elements of one operand for all totals, it then has those of all terms in registers at once, and
totals on the stack. It also loads the elements of all terms in front of a loop around them, and stores them there.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NEXT_TERM = "NEXT_TERM;"
"""The statement between two terms."""

DEFINITION = """\
/* Keeps GCC from reading what several terms of totals need ahead, for which the core has no registers. */
#if defined(__GNUC__) && !defined(__clang__)
#define NEXT_TERM __asm__ volatile("" ::: "memory")
#else
#define NEXT_TERM (void)0
#endif
"""

_FEWEST_TOTALS = 4
"""Totals that a term is added to: with fewer of them there are registers for terms."""

_STATEMENT = re.compile(r"(?P<indent> *)(?:int32_t (?!total)\w+ = |(?P<total>total\d+) = )")


def in_order(lines: Sequence[str]) -> list[str]:
    """Return the lines of a function, with `NEXT_TERM` between terms that add to the same totals in the same order."""
    ends = set(_ends(lines))
    ordered: list[str] = []
    for number, line in enumerate(lines):
        ordered.append(line)
        if number in ends:
            ordered.append(f"{line[: len(line) - len(line.lstrip())]}{NEXT_TERM}")
    return ordered


def definition(lines: Iterable[str]) -> str:
    """Return the definition of the macro, or nothing where lines do not need it."""
    return DEFINITION if any(line.strip() == NEXT_TERM for line in lines) else ""


def _ends(lines: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the last lines of terms that others follow."""
    matches = [_STATEMENT.match(line) for line in lines]
    indents = [None if match is None else match["indent"] for match in matches]
    for indent, numbers in groupby(range(len(lines)), lambda number: indents[number]):
        if indent is None:
            continue
        added = [(match["total"], n) for n in numbers if (match := matches[n]) is not None and match["total"]]
        totals = [total for total, _ in added]
        count = len(set(totals))
        if count >= _FEWEST_TOTALS and totals == totals[:count] * (len(totals) // count):
            yield from (number for _, number in added[count - 1 : -1 : count])
