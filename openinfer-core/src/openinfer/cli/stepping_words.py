"""Commands of `openinfer trace`: their names and arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.errors import ExecutionError
from openinfer.inspect.breakpoints import (
    BlockBreakpoint,
    Breakpoint,
    ConditionBreakpoint,
    LineBreakpoint,
    NonFiniteBreakpoint,
    OperatorBreakpoint,
    RangeBreakpoint,
    WriteBreakpoint,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CODE = "bad-command"

MOST_DIGITS = 9
"""Digits of a number in a command."""


@dataclass(frozen=True, slots=True)
class Word:
    """A command: its name, a short name, what follows it, and what it does."""

    name: str
    short: str
    usage: str
    summary: str


WORDS = (
    Word("step", "s", "[N]", "run the next statement, or N of them; goes into blocks and loops"),
    Word("next", "n", "", "run the next statement with the block that it calls or all iterations of the loop"),
    Word("turn", "t", "", "run to the next iteration of the innermost loop, or past its end"),
    Word("finish", "f", "", "run to the end of this block"),
    Word("continue", "c", "", "run to the next breakpoint, or to the end of the step"),
    Word("break", "b", "[WHERE]", "stop there from here on; without WHERE, list breakpoints and watches"),
    Word("watch", "w", "EXPRESSION", "report when it changes: x, x[0], K[l, 2], max(abs(x))"),
    Word("delete", "d", "N", "forget breakpoint or watch N"),
    Word("print", "p", "EXPRESSION", "show a value: type, elements, statistics"),
    Word("show", "", "EXPRESSION", "show all elements of a value"),
    Word("variables", "v", "", "show every variable that holds a value"),
    Word("list", "l", "[LINE]", "show the program around the next statement, or around LINE"),
    Word("stack", "k", "", "show the blocks and loops that are being run"),
    Word("operators", "o", "", "show how often operators ran, and how long"),
    Word("memory", "m", "", "show the bytes that hold values, by kind of memory"),
    Word("export", "e", "FILE", "write the trace so far: FILE.json, or FILE.perfetto.json"),
    Word("save", "", "NAME FILE.npy", "write a value to a file"),
    Word("help", "h", "", "show this"),
    Word("quit", "q", "", "leave"),
)

WHERE = (
    ("op NAME", "before every node with this operator"),
    ("line N", "before every statement that begins on this line; N alone does, too"),
    ("block NAME", "at the beginning of every run of this block"),
    ("write NAME", "after every statement that writes this variable"),
    ("nan, inf, non-finite", "where one appears: in an output when no input had it, or read from outside"),
    ("range LOW..HIGH [NAME]", "after a statement that writes an element outside"),
    ("if CONDITION", "after the statement that makes it true: if max(abs(x)) > 10"),
)

STEPPING = ("step", "next", "turn", "finish", "continue")
"""Commands that an empty line repeats."""


def word(text: str) -> Word:
    """Return the command of a name, a short name, or the beginning of a name that only one has.

    Raises:
        ExecutionError: ``bad-command``.
    """
    exact = next((each for each in WORDS if text in (each.name, each.short)), None)
    begun = [each for each in WORDS if each.name.startswith(text)]
    if exact is not None:
        return exact
    if len(begun) == 1:
        return begun[0]
    if begun:
        listed = ", ".join(each.name for each in begun)
        raise ExecutionError(f"{text!r} may be {listed}: write more of it", code=CODE)
    hint = did_you_mean(text, [each.name for each in WORDS]) or "`help` lists them"
    raise ExecutionError(f"unknown command {text!r}: {hint}", code=CODE)


def breakpoint_of(text: str) -> Breakpoint:
    """Return the breakpoint that follows ``break``.

    Raises:
        ExecutionError: ``bad-command``, or ``bad-condition`` for what follows ``if``.
    """
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    simple = {"nan": NonFiniteBreakpoint(infinity=False), "inf": NonFiniteBreakpoint(nan=False)}
    simple |= {"non-finite": NonFiniteBreakpoint()}
    if kind in simple and not rest:
        return simple[kind]
    if not rest and kind.isdigit():
        return LineBreakpoint(whole(kind, "the number of a line"))
    makers: dict[str, Callable[[str], Breakpoint]] = {
        "op": OperatorBreakpoint,
        "line": lambda each: LineBreakpoint(whole(each, "the number of a line")),
        "block": BlockBreakpoint,
        "write": WriteBreakpoint,
        "range": _range,
        "if": ConditionBreakpoint,
    }
    if kind in makers and rest:
        return makers[kind](rest)
    listed = "; ".join(where for where, _ in WHERE)
    raise ExecutionError(f"expected where to break, found {text.strip()!r}: {listed}", code=CODE)


def whole(text: str, what: str) -> int:
    """Return a number that follows a command.

    Raises:
        ExecutionError: ``bad-command``, it is none.
    """
    if not (text.isascii() and text.isdigit()) or len(text) > MOST_DIGITS:
        raise ExecutionError(f"expected {what}, found {text!r}", code=CODE)
    return int(text)


def _range(text: str) -> RangeBreakpoint:
    bounds, _, name = text.partition(" ")
    low, dots, high = bounds.partition("..")
    try:
        if not dots:
            raise ValueError
        found = float(low) if low else -math.inf, float(high) if high else math.inf
    except ValueError:
        raise ExecutionError(f"expected LOW..HIGH, such as -10..10 or ..1e6, found {bounds!r}", code=CODE) from None
    return RangeBreakpoint(*found, name.strip() or None)
