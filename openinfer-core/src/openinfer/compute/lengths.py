"""Extents such as ``n - 1`` of computations with parameters, which are below 0 at some values of these.

There is nothing to compute then. Loop programs divide extents into blocks and a rest, which reach in front of their
tensors where an extent is below 0: they must not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation


def uncertain_lengths(computation: Computation) -> frozenset[Index]:
    """Return the extents of loops that may be below 0."""
    axes = (axis for stage in computation.stages for axis in stage.all_axes)
    return frozenset(extent for extent in _varying(axes) if _may_be_below(extent, 0))


def shared_lengths(computation: Computation) -> tuple[Index, ...]:
    """Return the extents that may be below 0, where every stage stores that many elements; else nothing.

    Where a parameter may have no value, as a place in no rows, they are all extents that vary: if one is 0, the
    parameter does not matter.
    """
    ends = (var.extent for var in computation.parameters)
    is_open = any(isinstance(end, Index) and _may_be_below(end, 1) for end in ends)
    every = [
        frozenset(extent for extent in _varying(stage.axes) if is_open or _may_be_below(extent, 0))
        for stage in computation.stages
    ]
    if not every or any(lengths != every[0] for lengths in every) or not uncertain_lengths(computation) <= every[0]:
        return ()
    return tuple(sorted(every[0], key=str))


def _varying(axes: Iterable[Var]) -> Iterator[Index]:
    return (axis.extent for axis in axes if isinstance(axis.extent, Index))


def _may_be_below(extent: Index, least: int) -> bool:
    low = extent.interval.low
    return low is None or low < least
