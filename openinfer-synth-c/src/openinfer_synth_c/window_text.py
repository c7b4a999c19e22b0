"""Windows over images as C expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_synth_c.index_text import times

if TYPE_CHECKING:
    from openinfer.ops.windows import Window


def place(position: str, tap: str, window: Window) -> str:
    """Return the place that a tap reads, counted from the start of the padding."""
    return f"{times(position, window.stride)} + {times(tap, window.dilation)}"


def outside(at: str, window: Window, positions: int) -> str:
    """Return the test whether a place of one of so many positions lies in the padding, empty if none does.

    C compilers warn of tests that cannot be true.
    """
    last = (positions - 1) * window.stride + (window.kernel - 1) * window.dilation - window.before
    tests: list[str] = []
    if window.before:
        tests.append(f"{at} < {window.before}")
    if last >= window.size:
        tests.append(f"{at} >= {window.size + window.before}")
    return " || ".join(tests)


def less(amount: int) -> str:
    """Return the text that takes an amount away."""
    return f" - {amount}" if amount else ""
