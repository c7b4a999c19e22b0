"""Terms that are added to the same totals one after another, on cores without registers for several.

GCC 12 makes one expression of all that a loop body adds to a total. Where several terms are written out, each of which
is an element of one operand for all totals, it then has those of all terms in registers at once, and totals on the
stack.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.arch import TargetInfo

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

_MANY_REGISTERS = 16
_FEWEST_TOTALS = 4
"""Totals that a term is added to: with fewer of them there are registers for terms."""

_STATEMENT = re.compile(r"\s*(?:int32_t x\d+ = |(?P<total>total\d+) = )")


def is_in_order(machine: TargetInfo) -> bool:
    """Return whether the totals of a core leave no registers for several terms."""
    registers = machine.integer_registers or machine.registers
    return machine.is_scalar and not machine.dsp and registers < _MANY_REGISTERS


def in_order(lines: Sequence[str]) -> list[str]:
    """Return the lines of a function, with `NEXT_TERM` between terms of a loop body that consists of them."""
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
    for number, line in enumerate(lines):
        if " for (" in f" {line.lstrip()}" and line.endswith("{"):
            yield from _ends_in_body(lines, number + 1)


def _ends_in_body(lines: Sequence[str], start: int) -> Iterator[int]:
    """Yield those of a loop's body, which has nothing but terms, each added to the same totals in the same order."""
    added: list[tuple[str, int]] = []
    for number in range(start, len(lines)):
        if lines[number].strip() == "}":
            break
        statement = _STATEMENT.match(lines[number])
        if statement is None:
            return
        if statement["total"]:
            added.append((statement["total"], number))
    totals = [total for total, _ in added]
    count = len(set(totals))
    if count >= _FEWEST_TOTALS and totals == totals[:count] * (len(totals) // count):
        yield from (number for _, number in added[count - 1 : -1 : count])
