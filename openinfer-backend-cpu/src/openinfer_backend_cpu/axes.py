"""Axes as settings give them."""

from __future__ import annotations

from typing import cast


def reduced_axes(value: object, rank: int) -> tuple[int, ...]:
    """Return axes ascending and non-negative; None and an empty list mean all of them."""
    if value is None or value == ():
        return tuple(range(rank))
    if isinstance(value, int):
        return (value % rank,)
    return tuple(sorted(axis % rank for axis in cast("tuple[int, ...]", value)))


def single_axis(value: object, rank: int) -> int:
    """Return one axis, non-negative, given as an integer or a list of one."""
    axis = value if isinstance(value, int) else cast("tuple[int, ...]", value)[0]
    return axis % rank
