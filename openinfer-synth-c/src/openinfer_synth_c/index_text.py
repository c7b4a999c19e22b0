"""Positions in tensors as C expressions: collapsed loop nests and flat indices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def for_head(counter: str, extent: int | str, start: int | str = 0) -> str:
    """Return the head of a loop that counts from ``start`` to below ``extent``."""
    if extent == 0:
        # C compilers warn of an unsigned counter below 0.
        start = extent = 1
    return f"for (size_t {counter} = {start}; {counter} < {extent}; ++{counter})"


def flat(counters: Sequence[str], strides: Sequence[int]) -> str:
    """Return the sum of counters times strides, without terms that are zero."""
    terms = [
        counter if stride == 1 else f"{counter} * {stride}"
        for counter, stride in zip(counters, strides, strict=True)
        if stride and counter != "0"
    ]
    return " + ".join(terms) or "0"
