"""The element in the places around a tensor, where windows read past its border."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.expr import tree
from openinfer.loops import Bind, For, Store, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.layout import Layout
    from openinfer.loops import Buffer, Statement
    from openinfer.lower.names import Names


def filled_halo(buffer: Buffer, layout: Layout, names: Names) -> Iterator[Statement]:
    """Yield loops that fill the halo of a tensor, and its padding where that lies within the halo.

    Raises:
        TypeError: an extent is known at run time only.
    """
    if not any(map(any, layout.halo)):
        return
    extents = [_constant(extent) for extent in layout.shape]
    for dim, (before, after) in enumerate(layout.halo):
        for first, count in ((-before, before), (extents[dim], after)):
            if count:
                yield from _box(
                    buffer, layout, [_side(layout, d, dim, first, count) for d in range(len(extents))], names
                )


def _side(layout: Layout, dim: int, bordered: int, first: int, count: int) -> tuple[int, int]:
    """Return first place and number of places along a dimension of one side of the border.

    Sides of earlier dimensions have the corners: those of later ones lie between them.
    """
    if dim == bordered:
        return first, count
    before, _ = layout.halo[dim]
    room = layout.room(dim)
    if dim < bordered:
        return 0, _constant(layout.shape[dim])
    return -before, _constant(layout.shape[dim]) + sum(layout.halo[dim]) if room is None else room + before


def _box(buffer: Buffer, layout: Layout, box: Sequence[tuple[int, int]], names: Names) -> Iterator[Statement]:
    axes = [Var(names.new("h"), count) for _, count in box]
    at = [axis + first for axis, (first, _) in zip(axes, box, strict=True)]
    fill = Value(tree.literal(layout.fill, buffer.dtype))
    body: tuple[Statement, ...] = (Store(buffer, layout.address(at), fill),)
    order = list(dict.fromkeys(digit.dim for digit in layout.digits))
    for dim in reversed(order):
        body = (For(axes[dim], Bind.SERIAL, body),)
    yield from body


def _constant(extent: Index) -> int:
    constant = extent.constant
    if constant is None:
        raise TypeError(f"an extent of {extent} is known at run time only: its tensor can have no halo")
    return constant
