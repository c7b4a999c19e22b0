"""Loops that compilers must not unroll.

GCC 12 loads from wrong places where it unrolls a short loop whose body loads under a condition, and vectorises the loop
around it: the masked loads of several turns become one, whose order and distances it forgets. So every loop that holds
a condition, or is under one, is kept as it is; compilers may still vectorise it. The others may be unrolled, except
loops over lanes that kernels keep themselves: GCC vectorises those the wrong way once they are unrolled.

GCC 12 also vectorises loops the wrong way in which several results of one array are written out, each under a condition
(attention over one key: ``y0[3*i] = all_masked ? 0 : total / weights``, then ``y0[3*i + 1]``): some results are 0. An
empty assembler statement in the loop keeps it from being vectorised, which gains nothing where results are written out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from openinfer.expr.c_renderer import helper_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ROLLED = "ROLLED"
"""The macro before the head of such a loop."""

DEFINITION = """\
/* Keeps a loop from being unrolled: GCC 12 loads from wrong places where it unrolls a loop that loads under a
   condition, and vectorises loops over lanes the wrong way once they are unrolled. Without optimisation it warns. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 8 && defined(__OPTIMIZE__)
#define ROLLED _Pragma("GCC unroll 1")
#else
#define ROLLED
#endif
/* Keeps GCC 12 from vectorising a loop that writes several results of one array under conditions: some are 0 then. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14 && defined(__OPTIMIZE__)
#define ONE_BY_ONE(counter) __asm__("" : "+r"(counter))
#else
#define ONE_BY_ONE(counter) (void)(counter)
#endif
"""

_HEAD = re.compile(r"for \(\w+ (\w+) = ")
_STORE = re.compile(r"(\w+)\[[^\]]*\] = ")
_CONDITION = re.compile(r"\?|&&|\|\||\bif \(|\belse\b|\bcontinue;")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\(")
_COMMENT = re.compile(r"/\*.*?\*/")
_DIRECTIVE = re.compile(r"^#.*$", re.MULTILINE)


@dataclass(slots=True)
class _Open:
    """Braces that are open.

    Attributes:
        line: number of the line that opens them.
        guarded: whether what follows in them is under a condition.
        tests: how many of the statements directly in them contain a condition.
        stores: the arrays that statements directly in them store to.
    """

    line: int
    guarded: bool
    tests: int = 0
    stores: list[str] = field(default_factory=list[str])

    @property
    def writes_out(self) -> bool:
        """Whether several results of one array are written out under conditions."""
        return self.tests > 1 and len(set(self.stores)) < len(self.stores)


def rolled(head: str) -> str:
    """Return the head of a loop, kept from being unrolled."""
    return f"{ROLLED} {head}"


def uses_rolled(lines: Iterable[str]) -> bool:
    """Return whether lines need the definition of the macro."""
    return any(line.lstrip().startswith(f"{ROLLED} ") for line in lines)


def keep_rolled(lines: Sequence[str], helpers: Iterable[str]) -> list[str]:
    """Return the lines of a step with the macro before each loop that holds a condition or is under one.

    Args:
        helpers: functions of the renderer that the lines may call; a call of one with a condition in it is a condition.
    """
    has_condition = condition_in(helpers)
    marked: set[int] = set()
    written_out: set[int] = set()
    stack = [_Open(-1, guarded=False)]
    for number, line in enumerate(lines):
        text = _COMMENT.sub("", line).strip()
        if text == "}":
            closed = stack.pop()
            if closed.writes_out:
                written_out.add(closed.line)
            continue
        is_loop = text.startswith("for (")
        if is_loop and stack[-1].guarded:
            marked.add(number)
        tests = not is_loop and has_condition(text)
        if tests:
            marked |= {each.line for each in stack}
            stack[-1].tests += 1
        store = _STORE.match(text)
        if store is not None:
            stack[-1].stores.append(store[1])
        if text.endswith("continue; }"):
            stack[-1].guarded = True
        if text.endswith("{"):
            stack.append(_Open(number, guarded=stack[-1].guarded or tests))
    kept: list[str] = []
    for number, line in enumerate(lines):
        kept.append(_marked(line) if number in marked else line)
        head = _HEAD.match(line.lstrip()) if number in written_out else None
        if head is not None:
            indent = len(line) - len(line.lstrip())
            kept.append(f"{' ' * indent}    ONE_BY_ONE({head[1]});")
    return kept


def condition_in(helpers: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that says whether a line of code contains a condition, or calls a helper that does."""
    conditional = {name for name in helpers if _tests(name)}
    return lambda text: bool(_CONDITION.search(text)) or not conditional.isdisjoint(_CALLED.findall(text))


@cache
def _tests(helper: str) -> bool:
    """Return whether a function of the renderer, or one that it calls, contains a condition."""
    return _CONDITION.search(_DIRECTIVE.sub("", helper_source((helper,)))) is not None


def _marked(line: str) -> str:
    """Return a line with the macro before its loop, if it is the head of one without it."""
    text = line.lstrip()
    return f"{line[: len(line) - len(text)]}{rolled(text)}" if text.startswith("for (") else line
