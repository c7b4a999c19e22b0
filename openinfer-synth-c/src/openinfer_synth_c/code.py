"""Lines of C code with their indentation, and the helper functions that they call."""

from __future__ import annotations

from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING

from openinfer.expr.c_functions import call_text
from openinfer.expr.c_renderer import render
from openinfer_synth_c.rolled_loops import keep_rolled

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from openinfer.dtypes import DType
    from openinfer.expr.fragment import Call
    from openinfer.expr.linear import Program

_INDENT = "    "

LONGEST_LINE = 120
"""Characters of a line, after which lists go on on the next."""

LONGEST_LOCAL = 1024
"""Most items of an array on the stack, which may be small."""


class Code:
    """Collects lines.

    ``helpers`` are names of the renderer's functions that the lines call, ``index_functions`` those of `integers`;
    ``definitions`` are the types and functions of vectors by name, with their text, in the order in which they stand;
    ``loop_turns`` has the turns of the program's loops, as far as they are known, by the numbers of their lines;
    ``keeps_memory`` tells whether the lines have static memory, which is there for one thread at a time.
    """

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.helpers: dict[str, None] = {}
        self.index_functions: set[str] = set()
        self.definitions: dict[str, str] = {}
        self.loop_turns: dict[int, int] = {}
        self.keeps_memory = False
        self._depth = depth

    def line(self, *texts: str) -> None:
        """Append lines at the present depth."""
        self.lines += [f"{_INDENT * self._depth}{text}" for text in texts]

    def listed(self, before: str, items: Iterable[str], between: str, end: str) -> None:
        """Append a statement that lists items, on as many lines as that takes."""
        text = f"{before}{between.join(items)}{end}"
        width = LONGEST_LINE - len(_INDENT) * self._depth
        lines = wrap(text, width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False)
        self.line(*lines)

    def scratch(self, kind: str, name: str, count: int, *, start: str | None = None) -> None:
        """Append an array to work in, of ``count`` items and at least one; a long one is static, not on the stack.

        Args:
            start: value of its first item before anything is written; all others are then zero.
        """
        kept = "static " if count > LONGEST_LOCAL else ""
        self.keeps_memory = self.keeps_memory or bool(kept)
        value = "" if start is None else f" = {{{start}}}"
        self.line(f"{kept}{kind} {name}[{max(count, 1)}]{value};")

    @contextmanager
    def braces(self, head: str = "") -> Generator[None]:
        """Put what is appended meanwhile in braces after ``head``."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, heads: Iterable[str]) -> Generator[None]:
        """Nest what is appended meanwhile in the given loops, outermost first."""
        depth = self._depth
        for head in heads:
            self.line(f"{head} {{")
            self._depth += 1
        yield
        while self._depth > depth:
            self._depth -= 1
            self.line("}")

    def compute(self, program: Program, inputs: Mapping[int, str], prefix: str) -> str:
        """Append the statements of an expression; return the text of its result."""
        fragment = render(program, inputs, prefix)
        self.line(*fragment.statements)
        self.helpers.update(dict.fromkeys(fragment.helpers))
        return fragment.result

    def noted(self, call: Call) -> str:
        """Return the text of an expression, and note the functions in it."""
        self.helpers.update(dict.fromkeys(call.helpers))
        return call.text

    def keep_rolled(self, start: int) -> None:
        """Keep compilers from unrolling the loops with conditions among the lines from ``start`` on."""
        self.lines[start:] = keep_rolled(self.lines[start:], self.helpers)

    def cast(self, text: str, source: DType, target: DType) -> str:
        """Return the conversion of an element, which is a name or binds as tightly, in one expression."""
        return text if source is target else self.noted(call_text("cast", (source,), target, (text,)))


def operand(text: str) -> str:
    """Return an expression in parentheses if need be: a name binds as tightly as any operator."""
    return text if text.isidentifier() else f"({text})"
