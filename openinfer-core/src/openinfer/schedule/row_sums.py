"""Sums of products along rows in memory, in plain loops: C compilers make dot products of these themselves.

A few places advance together and share what they read of the other factor. Nothing lies in lanes: those of a compiler's
vectors hold terms of one sum, as many as its processor multiplies at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Order, Read
from openinfer.dtypes import U32
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops import Bind
from openinfer.schedule.folds import joining
from openinfer.schedule.loops import Loop, Schedule, distance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.layout import Layout

LEAST_ROW = 16
"""Fewest elements that follow one another in memory: vectors of bytes have so many."""

COPIES = (4, 3, 2)
"""How many places advance together, the best first: more leave compilers too few registers for their sums."""


def along_rows(stage: Stage, layouts: Mapping[str, Layout], skip: int | None = None) -> Schedule | None:
    """Return the schedule of a sum of products of u32 whose factors lie in rows; None: it is something else.

    Args:
        layouts: where tensors lie, by name. Operands that it does not have are packed for the schedule.
        skip: number of an element past whose border terms may be left out.
    """
    fold = stage.fold
    if fold is None or not _is_sum_of_products(stage):
        return None
    used = [stage.elements[number] for number in linearise(fold.totals[0].term).inputs]
    reads = [element for element in used if isinstance(element, Read)]
    folded = set(fold.axes)
    rows = [read for read in reads if any(index.variables() & folded for index in read.at)]
    order = _order(rows, fold.axes, layouts)
    if order is None:
        return None
    if all(stays_inside(read, layouts) for read in reads):
        skip = None
    elif skip is None:
        return None
    store = layouts[stage.tensor].address(stage.at)
    own = sorted(stage.axes, key=lambda axis: -distance(store, axis))
    shared = [axis for axis in own if not all(_varies(read, axis) for read in rows) and _extent(axis) > 1]
    # Copies along an axis of packed operands would take rows apart.
    laid_out = [read for read in rows if read.tensor in layouts]
    images = [axis for axis in shared if all(_varies(read, axis) for read in laid_out)]
    spread = next(
        (axis for axis in reversed(images) if not any(_varies(r, axis) for r in rows if r not in laid_out)), None
    )
    copies = 1 if spread is None else _copies(_extent(spread))
    last = [axis for axis in own if axis in shared and axis not in images]
    serial = [*(axis for axis in own if axis not in last), *last]
    loops = [Loop(axis, copies if axis == spread else 1) for axis in serial]
    loops += [Loop(axis) for axis in order]
    loops += [Loop(spread, 1, Bind.UNROLL)] if spread is not None and copies > 1 else []
    return Schedule(tuple(loops), skip=skip)


def _is_sum_of_products(stage: Stage) -> bool:
    fold = stage.fold
    if fold is None or fold.order is not Order.ANY or fold.running or len(fold.totals) != 1:
        return False
    (total,) = fold.totals
    match total.term:
        case tree.Apply("mul", _, dtype) if dtype is U32:
            return joining(total) == "add" and total.start is not None
        case _:
            return False


def _order(rows: Sequence[Read], axes: Sequence[Var], layouts: Mapping[str, Layout]) -> list[Var] | None:
    """Return folded axes, the one along which elements are neighbours last; None: there are no rows, or short ones.

    Packed operands follow whatever the order is.
    """
    addresses = [layouts[read.tensor].address(read.at) for read in rows if read.tensor in layouts]
    if not addresses or len(rows) < 2 or not all(isinstance(axis.extent, int) for axis in axes):
        return None
    order = sorted(axes, key=lambda axis: -distance(addresses[0], axis))
    length = 1
    for axis in reversed(order):
        if any(address.coefficient(axis) != length for address in addresses):
            break
        length *= _extent(axis)
    return order if length >= LEAST_ROW else None


def stays_inside(read: Read, layouts: Mapping[str, Layout]) -> bool:
    """Return whether what lies past the border of a tensor is there, in its halo."""
    if read.fill is None:
        return True
    layout = layouts.get(read.tensor)
    if layout is None or read.guards or not read.fills_with(layout.fill):
        return False
    halo = layout.halo or ((0, 0),) * len(layout.shape)
    return all(
        (index + before).is_within(0, extent + (before + after))
        for index, extent, (before, after) in zip(read.at, layout.shape, halo, strict=True)
    )


def _varies(read: Read, axis: Var) -> bool:
    return any(axis in index.variables() for index in read.at)


def _copies(extent: int) -> int:
    return next((count for count in COPIES if extent % count == 0), min(COPIES[0], extent))


def _extent(axis: Var) -> int:
    return axis.extent if isinstance(axis.extent, int) else 0
