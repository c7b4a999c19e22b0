"""Products of bytes in rows, for machines that add a whole vector of them to a total by one instruction.

A term of the sum has an element of a row of the image and one of the weights. The row is part of the image where that
has the elements of folded axes one after the other in memory, in whole vectors. Elsewhere it is a copy of what a place
reads, with its border, and with further elements up to a whole vector: their weights are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, extent_of
from openinfer.affine.digits import digits_of
from openinfer.compute.columns import free_names
from openinfer.compute.modular_sums import with_used_elements
from openinfer.compute.stage import Read, Stage, Tensor
from openinfer.compute.substitution import moved
from openinfer.dtypes import I8
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.byte_columns import ByteColumns
    from openinfer.compute.stage import Fold

VECTOR = 16
"""Bytes of a vector."""


@dataclass(frozen=True, slots=True)
class InRows:
    """Products in rows.

    Attributes:
        products: the stage of the sums; its last folded axis walks the rows.
        copy: the stage that copies rows, and ``rows``, the tensor between both; None: the image has the rows.
        order: dimensions of the old weights, in the order in which the new ones have them: channels, folded axes.
        shape: of the new weights, whose last dimension is padded with zeros.
    """

    products: Stage
    copy: Stage | None
    rows: Tensor | None
    order: tuple[int, ...]
    shape: tuple[int, ...]


def rows_of_image(stage: Stage, parts: ByteColumns, address: Index) -> InRows | None:
    """Return products of rows that the image has; None: it has none in whole vectors, or a border without elements.

    Args:
        address: where the element of the image lies.
    """
    fold, read = stage.fold, stage.elements[parts.image]
    if fold is None or not isinstance(read, Read) or read.fill is not None:
        return None
    row: list[Var] = []
    for axis in _by_distance(fold, address)[::-1]:
        if address.coefficient(axis) != prod(map(extent_of, row)):
            break
        row.insert(0, axis)
    step = Var(next(free_names(stage)), prod(map(extent_of, row)))
    if not row or extent_of(step) % VECTOR:
        return None
    others = [axis for axis in fold.axes if axis not in row]
    taken = dict(zip(row, digits_of(Index.of(step), [extent_of(axis) for axis in row]), strict=True))
    image = replace(read, at=tuple(index.substituted(taken) for index in read.at))
    return InRows(*_products(stage, parts, image, others, row, step))


def copied_rows(stage: Stage, parts: ByteColumns, address: Index, name: str) -> InRows:
    """Return the two stages of products of rows that are copied for each place.

    Args:
        address: where the element of the image lies.
        name: of the tensor between the stages.
    """
    fold, read = stage.fold, stage.elements[parts.image]
    if fold is None or not isinstance(read, Read):
        raise TypeError("products are the terms of a fold of two reads")
    names = free_names(stage)
    outer, *inner = _by_distance(fold, address)
    terms = prod(map(extent_of, fold.axes))
    step = Var(next(names), -(-terms // VECTOR) * VECTOR)
    inside = prod(map(extent_of, inner))
    extents = [-(-extent_of(step) // inside), *map(extent_of, inner)]
    walked = [*parts.places, outer, *inner]
    axes = tuple(Var(next(names), extent) for extent in (*map(extent_of, parts.places), *extents))
    source = moved(read, dict(zip(walked, map(Index.of, axes), strict=True)))
    if not isinstance(source, Read):
        raise TypeError("the image of a sum is read")
    if source.fill is None:
        # Rows are longer than what a place reads.
        source = replace(source, fill=tree.literal(0, I8))
    copy = Stage(name, axes, (source,), tree.Input(0, I8), tuple(map(Index.of, axes)))
    rows = Tensor(name, I8, tuple(Index.of(extent_of(axis)) for axis in axes))
    image = Read(name, (*map(Index.of, parts.places), *digits_of(Index.of(step), extents)), I8)
    products, _, _, order, shape = _products(stage, parts, image, [], [outer, *inner], step)
    return InRows(products, copy, rows, order, shape)


def _by_distance(fold: Fold, address: Index) -> list[Var]:
    """Return the folded axes, those along which elements of the image lie far apart first."""
    return sorted(fold.axes, key=lambda axis: -abs(address.coefficient(axis) or 0))


def _products(
    stage: Stage, parts: ByteColumns, image: Read, others: Sequence[Var], row: Sequence[Var], step: Var
) -> tuple[Stage, None, None, tuple[int, ...], tuple[int, ...]]:
    """Return the stage of the sums, and what `InRows` says of its weights."""
    fold, weight = stage.fold, stage.elements[parts.weight]
    if fold is None or not isinstance(weight, Read):
        raise TypeError("products are the terms of a fold of two reads")
    elements = list(stage.elements)
    elements[parts.image] = image
    elements[parts.weight] = replace(weight, at=tuple(map(Index.of, (parts.channels, *others, step))))
    folded = replace(fold, axes=(*others, step))
    order = tuple(weight.at.index(Index.of(axis)) for axis in (parts.channels, *others, *row))
    shape = tuple(extent_of(axis) for axis in (parts.channels, *others, step))
    return with_used_elements(replace(stage, elements=tuple(elements), fold=folded)), None, None, order, shape
