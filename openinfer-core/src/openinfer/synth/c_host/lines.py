"""Lines of source in a language of the C family, with their indentation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

INDENT = "    "


class Lines:
    """Collects lines. ``index_functions`` are those of `openinfer.synth.c_host.integers` that they call.

    ``fault_line`` is what the statuses of failed tests carry: the line of the statement that is being written, or 0.
    """

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.index_functions: set[str] = set()
        self.depth: int = depth
        self.fault_line = 0

    def line(self, *texts: str) -> None:
        """Append lines at the present depth."""
        self.lines += [f"{INDENT * self.depth}{text}" for text in texts]

    def refuse(self, test: str, status: str = "MODEL_INDEX") -> None:
        """Append a test that ends the function with a status where it holds."""
        self.line(f"if ({test}) {{ {self.ending(status)} }}")

    def ending(self, status: str) -> str:
        """Return the statement that ends the function with the status of a failure."""
        return f"return {self.raised(status)};"

    def raised(self, status: str) -> str:
        """Return the text of a status of the statement that is being written; a step takes the two apart."""
        return f"{status} + MODEL_AT({self.fault_line})" if self.fault_line else status

    @contextmanager
    def faults_at(self, line: int) -> Generator[None]:
        """Have the statuses of what is appended meanwhile carry a line."""
        before, self.fault_line = self.fault_line, line
        yield
        self.fault_line = before

    @contextmanager
    def braces(self, head: str = "") -> Generator[None]:
        """Put what is appended meanwhile in braces after ``head``."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")
