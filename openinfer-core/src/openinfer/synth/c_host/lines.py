"""Lines of source in a language of the C family, with their indentation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

INDENT = "    "


class Lines:
    """Collects lines. ``index_functions`` are those of `openinfer.synth.c_host.integers` that they call."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.index_functions: set[str] = set()
        self.depth: int = depth

    def line(self, *texts: str) -> None:
        """Append lines at the present depth."""
        self.lines += [f"{INDENT * self.depth}{text}" for text in texts]

    @contextmanager
    def braces(self, head: str = "") -> Generator[None]:
        """Put what is appended meanwhile in braces after ``head``."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")
