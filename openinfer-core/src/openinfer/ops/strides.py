"""Strides of row-major tensors, also of those that are broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor broadcast to ``target``: 0 along dims that are broadcast.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    missing = len(target) - len(shape)
    padded = (*(1 for _ in range(missing)), *shape)
    if missing < 0 or any(have not in (1, wanted) for have, wanted in zip(padded, target, strict=True)):
        raise ValueError(f"shape {list(shape)} does not broadcast to {list(target)}")
    return tuple(0 if extent == 1 else step for extent, step in zip(padded, contiguous(padded), strict=True))
