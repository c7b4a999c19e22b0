"""Lines of C code with their indentation, and the helper functions that they call."""

from __future__ import annotations

from contextlib import contextmanager
from textwrap import wrap
from typing import TYPE_CHECKING

from openinfer.expr.c_functions import call_text
from openinfer.expr.c_nested import nested
from openinfer.expr.c_renderer import render
from openinfer.synth.c_host.lines import INDENT, Lines
from openinfer_synth_c.rolled_loops import keep_rolled

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from openinfer.dtypes import DType
    from openinfer.expr.fragment import Call
    from openinfer.expr.linear import Program

LONGEST_LINE = 120
"""Characters of a line, after which lists go on on the next."""

LONGEST_LOCAL = 1024
"""Most items of an array on the stack, which may be small."""

SCRATCH_ALIGNMENT = 64
"""Bytes that the places of longer arrays are multiples of."""


class Code(Lines):
    """Collects lines.

    ``helpers`` are names of the renderer's functions that the lines call;
    ``definitions`` are the types and functions of vectors by name, with their text, in their order;
    ``loop_turns`` has the turns of the program's loops, as far as they are known, by the numbers of their lines;
    ``keeps_memory``: whether the lines have static memory, which is there for one thread at a time;
    ``scratch_nbytes`` how much of the memory at ``scratch`` they work in, where there is any in place of static memory;
    ``has_vector_types`` whether vectors have the types of GCC and Clang, with the same results as those of plain C99;
    ``has_helium`` whether functions on them have Arm's instructions for microcontrollers too.
    """

    def __init__(
        self,
        depth: int = 0,
        *,
        has_vector_types: bool = False,
        has_helium: bool = False,
        scratch: str | None = None,
    ) -> None:
        super().__init__(depth)
        self.helpers: dict[str, None] = {}
        self.definitions: dict[str, str] = {}
        self.loop_turns: dict[int, int] = {}
        self.keeps_memory = False
        self.scratch_nbytes = 0
        self.tasks: dict[str, int] = {}
        self._scratch = scratch
        self._scratch_at = 0
        self.has_vector_types = has_vector_types
        self.has_helium = has_helium

    def mark(self) -> tuple[int, int, int]:
        """Return how far the text has come, for `cut`."""
        return len(self.lines), len(self.helpers), len(self.definitions)

    def cut(self, mark: tuple[int, int, int]) -> None:
        """Remove the lines appended after a mark, and the functions that only they call."""
        lines, helpers, definitions = mark
        del self.lines[lines:]
        for names, count in ((self.helpers, helpers), (self.definitions, definitions)):
            for name in list(names)[count:]:
                del names[name]

    def listed(self, before: str, items: Iterable[str], between: str, end: str) -> None:
        """Append a statement that lists items, on as many lines as that takes."""
        text = f"{before}{between.join(items)}{end}"
        width = LONGEST_LINE - len(INDENT) * self.depth
        lines = wrap(text, width, subsequent_indent=INDENT, break_long_words=False, break_on_hyphens=False)
        self.line(*lines)

    def assign(self, name: str, text: str) -> None:
        """Append an assignment, but none of a name to itself: Clang warns of it.

        A maximum with the least number, which a window has outside of its image, is the total itself.
        """
        if text != name:
            self.line(f"{name} = {text};")

    def scratch(self, kind: str, name: str, count: int, width: int = 8, *, is_zeroed: bool = False) -> None:
        """Append an array to work in, of ``count`` items and at least one; a long one is not on the stack.

        Args:
            width: bytes of an item, on the machine where it has most.
            is_zeroed: whether an array on the stack holds zeros at first, so that analysers see that all of it is set.
        """
        if count <= LONGEST_LOCAL:
            self.line(f"{kind} {name}[{max(count, 1)}]{' = {0}' if is_zeroed else ''};")
            return
        if self._scratch is None:
            self.keeps_memory = True
            self.line(f"static {kind} {name}[{count}];")
            return
        self.line(f"{kind} *const {name} = ({kind} *)(void *)({self._scratch} + {self._scratch_at});")
        self._scratch_at += -(-count * width // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        self.scratch_nbytes = max(self.scratch_nbytes, self._scratch_at)

    def lend_scratch(self, nbytes: int) -> str:
        """Return the address of the scratch memory of a function."""
        self.scratch_nbytes = max(self.scratch_nbytes, nbytes)
        return str(self._scratch)

    def leave_scratch(self) -> None:
        """Let later arrays lie where earlier ones do: those are not needed any more."""
        self._scratch_at = 0

    @contextmanager
    def loops(self, heads: Iterable[str]) -> Generator[None]:
        """Nest what is appended meanwhile in the given loops, outermost first."""
        depth = self.depth
        for head in heads:
            self.line(f"{head} {{")
            self.depth += 1
        yield
        while self.depth > depth:
            self.depth -= 1
            self.line("}")

    def compute(self, program: Program, inputs: Mapping[int, str], prefix: str) -> str:
        """Append the statements of an expression; return the text of its result."""
        fragment = render(program, inputs, prefix)
        self.line(*fragment.statements)
        self.helpers.update(dict.fromkeys(fragment.helpers))
        return fragment.result

    def nested(self, program: Program, inputs: Mapping[int, str], prefix: str) -> str:
        """Append the statements of an expression; return its result, which may be an expression of operators."""
        fragment = nested(program, inputs, prefix)
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
        """Return the conversion of an element, which is a primary expression, as one expression."""
        return text if source is target else self.noted(call_text("cast", (source,), target, (text,)))
