"""Extents such as ``n - 1`` of computations with parameters, which are below 0 at some values of these.

There is nothing to compute then. Loop programs divide extents into blocks and a rest, which reach in front of their
tensors where an extent is below 0: they must not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation


def uncertain_lengths(computation: Computation) -> frozenset[Index]:
    """Return the extents of loops that may be below 0."""
    axes = (axis for stage in computation.stages for axis in (*stage.axes, *(stage.fold.axes if stage.fold else ())))
    return frozenset(_uncertain(axes))


def shared_length(computation: Computation) -> Index | None:
    """Return the one extent that may be below 0, and that every result has; None where there is none."""
    lengths = uncertain_lengths(computation)
    if len(lengths) != 1 or any(frozenset(_uncertain(stage.axes)) != lengths for stage in computation.stages):
        return None
    return next(iter(lengths))


def _uncertain(axes: Iterator[Var] | tuple[Var, ...]) -> Iterator[Index]:
    for axis in axes:
        low = axis.extent.interval.low if isinstance(axis.extent, Index) else 0
        if isinstance(axis.extent, Index) and (low is None or low < 0):
            yield axis.extent
