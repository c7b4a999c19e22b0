"""Strides of row-major tensors, and broadcast ones as walks over the output in as few dimensions as they need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Walk:
    """Row-major positions of ``extents``; each operand has one stride, in elements, for every dimension."""

    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def rank(self) -> int:
        return len(self.extents)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor, in elements."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def broadcast_strides(shape: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major tensor broadcast to ``target``: 0 where it has one element for many.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    missing = len(target) - len(shape)
    padded = (*(1 for _ in range(missing)), *shape)
    if missing < 0 or any(have not in (1, wanted) for have, wanted in zip(padded, target, strict=True)):
        raise ValueError(f"shape {list(shape)} does not broadcast to {list(target)}")
    return tuple(0 if extent == 1 else step for extent, step in zip(padded, contiguous(padded), strict=True))


def broadcast_walk(target: Sequence[int], operands: Sequence[Sequence[int]]) -> Walk:
    """Return the shortest walk over ``target`` that reads operands of these shapes.

    Raises:
        ValueError: a shape does not broadcast to ``target``.
    """
    return merged(tuple(target), tuple(broadcast_strides(shape, target) for shape in operands))


def merged(extents: Sequence[int], strides: Sequence[Sequence[int]]) -> Walk:
    """Return the walk with dimensions of extent 1 left out, and neighbours joined where every operand allows it."""
    kept_extents: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        if kept_extents and all(have[-1] == own[axis] * extent for have, own in zip(kept, strides, strict=True)):
            kept_extents[-1] *= extent
            for have, own in zip(kept, strides, strict=True):
                have[-1] = own[axis]
            continue
        kept_extents.append(extent)
        for have, own in zip(kept, strides, strict=True):
            have.append(own[axis])
    return Walk(tuple(kept_extents), tuple(tuple(have) for have in kept))
