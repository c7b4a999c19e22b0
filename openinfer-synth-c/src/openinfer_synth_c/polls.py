"""Steps of this process that can be left: their loops test a flag, and their work is estimated.

The flag is tested between pieces of work that take much longer than it. Bundles that are shipped have no such tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer_synth_c.rolled_loops import ROLLED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STOPPED = 64
"""What a step returns that was left."""

UNKNOWN_WORK = 1 << 40
"""The work of a loop whose bounds are known when it runs only."""

_PIECE = 1 << 12
"""Minimum work between two tests, in executed lines of the body of a loop."""

_LONG_LOOP = 1 << 22
"""Least work of a loop that is divided to be tested in between, where its body is short."""

_TURNS = 1 << 16
"""Turns of one piece of such a loop."""

_CALL_WORK, _HELPER_WORK = 32, 4
"""Work of a line that calls functions, and of one that calls those of the renderer only, which may be inlined."""

_FEW = 16
"""Assumed iterations of a kernel's loop whose bounds are not constants: parts of tiles."""

_HEAD = re.compile(
    rf"(?P<indent> *)(?:{ROLLED} )?for \((?P<type>\w+) (?P<counter>\w+) = (?P<start>[^;,]+)(?:, \w+ = [^;]+)?; "
    r"\w+ < (?P<end>[^;]+); "
    r"(?:\+\+\w+|\w+ \+= (?P<step>\d+))\) \{"
)
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")
_INDENT = "    "


def definition(flag: str) -> str:
    """Return the macros; ``flag`` is the C expression of the flag."""
    return f"#define MODEL_STOPPED {STOPPED}\n#define POLL if ({flag}) {{ return MODEL_STOPPED; }}\n"


@dataclass(slots=True)
class _Open:
    """Braces that are open.

    Attributes:
        line: number of their first line.
        head: match of the loop, if they are one.
        work: of the lines seen in them.
        tested: whether a loop in them tests the flag.
        has_loop: whether there is a loop in them.
    """

    line: int
    head: re.Match[str] | None
    work: int = 0
    tested: bool = False
    has_loop: bool = False


def with_polls(lines: Sequence[str], turns: Mapping[int, int], calls: Mapping[str, int]) -> tuple[list[str], int]:
    """Return the lines of a function with tests in their long loops, and their work.

    Args:
        turns: of the loops of the program, by the number of their line.
        calls: work of functions that may be called.
    """
    found = list(lines)
    outermost = _Open(-1, None)
    stack = [outermost]
    for number, line in enumerate(lines):
        text = line.strip()
        if text == "}":
            closed = stack.pop()
            stack[-1].work += _closed(found, closed, number, turns)
            stack[-1].tested |= closed.tested
            stack[-1].has_loop |= closed.head is not None or closed.has_loop
        elif text.endswith("{"):
            stack[-1].work += _line_work(text, calls) if "for (" not in text else 0
            stack.append(_Open(number, _HEAD.fullmatch(line)))
        elif not text.startswith("/*"):
            stack[-1].work += _line_work(text, calls)
    return found, outermost.work


def _line_work(text: str, calls: Mapping[str, int]) -> int:
    called = _CALLED.findall(text)
    own = 1 if not called else _HELPER_WORK if all(name.startswith("oi_") for name in called) else _CALL_WORK
    return own + sum(calls.get(name, 0) for name in called)


def _closed(found: list[str], closed: _Open, last: int, turns: Mapping[int, int]) -> int:
    """Return the work of the braces that end at line ``last``, and add a test if they are a long loop."""
    head = closed.head
    if head is None:
        return closed.work
    is_of_program = head["type"] == "int64_t"
    count = turns.get(closed.line, UNKNOWN_WORK if is_of_program else _turns(head))
    total = min(count * max(closed.work, 1), UNKNOWN_WORK)
    if is_of_program or (closed.work >= _PIECE and not closed.tested and total >= _LONG_LOOP):
        found[closed.line] += f"\n{head['indent']}{_INDENT}POLL"
        closed.tested = True
    elif not closed.has_loop and total >= _LONG_LOOP and count > _TURNS and head["step"] is None:
        _divide(found, head, closed.line, last)
        closed.tested = True
    return total


def _turns(head: re.Match[str]) -> int:
    if not (head["start"].isdigit() and head["end"].isdigit()):
        return _FEW
    return -(-max(int(head["end"]) - int(head["start"]), 0) // int(head["step"] or 1))


def _divide(found: list[str], head: re.Match[str], first: int, last: int) -> None:
    """Divide a loop into pieces of turns, with a test before each."""
    indent, counter, end = head["indent"], head["counter"], head["end"]
    at, to = f"{counter}_from", f"{counter}_to"
    inner = found[first].replace(f"= {head['start']}; {counter} < {end};", f"= {at}; {counter} < {to};", 1)
    found[first] = "\n".join(
        (
            f"{indent}for (size_t {at} = {head['start']}; {at} < {end}; {at} += {_TURNS}) {{",
            f"{indent}{_INDENT}POLL",
            f"{indent}{_INDENT}const size_t {to} = {end} - {at} < {_TURNS} ? {end} : {at} + {_TURNS};",
            inner,
        )
    )
    found[last] += f"\n{indent}}}"
