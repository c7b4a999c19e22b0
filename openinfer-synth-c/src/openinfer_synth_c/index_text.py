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


def times(text: str, factor: int) -> str:
    """Return a product with a known factor."""
    return text if factor == 1 else f"{text} * {factor}"


def flat(counters: Sequence[str], strides: Sequence[int]) -> str:
    """Return the sum of counters times strides, without terms that are zero."""
    terms = [
        counter if stride == 1 else f"{counter} * {stride}"
        for counter, stride in zip(counters, strides, strict=True)
        if stride and counter != "0"
    ]
    return " + ".join(terms) or "0"


def signed_flat(counters: Sequence[str], strides: Sequence[int], offset: int = 0) -> str:
    """Return the sum of an offset and of counters times strides that may be negative; the sum itself is not."""
    ahead = [(counter, stride) for counter, stride in zip(counters, strides, strict=True) if stride > 0]
    back = [(counter, -stride) for counter, stride in zip(counters, strides, strict=True) if stride < 0]
    text = flat(*zip(*ahead, strict=True)) if ahead else "0"
    if offset:
        text = str(offset) if text == "0" else f"{offset} + {text}"
    return f"{text} - ({flat(*zip(*back, strict=True))})" if back else text
