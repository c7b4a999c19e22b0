"""Products of bytes from columns: what windows of neighbouring places read is copied to rows without borders.

A stage that adds products of an image and weights becomes two. The first one copies the part of the image that a few
places read, with what lies past its border; the second one multiplies it with the weights of all channels. Along a row
of the window the bytes of all its places and channels follow one another, and so do their weights.
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
from openinfer.dtypes import I8
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Fold


@dataclass(frozen=True, slots=True)
class ByteColumns:
    """A sum of products of bytes.

    Attributes:
        image, weight: numbers of the elements.
        channels: the axis of the channels of the result.
        places: the axes of the places of the image.
        is_depthwise: whether each channel has an image of its own, in place of one for all.
    """

    image: int
    weight: int
    channels: Var
    places: tuple[Var, ...]
    is_depthwise: bool


@dataclass(frozen=True, slots=True)
class InByteColumns:
    """Two stages, with what is between them.

    Attributes:
        columns: the tensor between the stages.
        copy, products: the stages.
        order: dimensions of the old weights, in the order in which the new ones have them: channels, folded axes.
        shape: of the new weights.
    """

    columns: Tensor
    copy: Stage
    products: Stage
    order: tuple[int, ...]
    shape: tuple[int, ...]


def byte_columns_of(stage: Stage) -> ByteColumns | None:
    """Return the parts of a stage with windows over an image of bytes; None: it is another one."""
    parts = sum_of_bytes(stage)
    image = None if parts is None else stage.elements[parts.image]
    if parts is None or not isinstance(image, Read) or not parts.places:
        return None
    return parts if any(len(index.variables()) > 1 for index in image.at) else None


def sum_of_bytes(stage: Stage) -> ByteColumns | None:
    """Return the parts of a stage that adds products of an image of bytes; None: it is another one."""
    fold = stage.fold
    if fold is None or fold.running or len(fold.totals) != 1 or stage.lookups or stage.checks or stage.is_sequential:
        return None
    match fold.totals[0].term:
        case tree.Apply(
            "mul", (tree.Apply("cast", (tree.Input(first),), _), tree.Apply("cast", (tree.Input(second),), _)), _
        ):
            pass
        case _:
            return None
    for image, weight in ((first, second), (second, first)):
        parts = _parts(stage, fold, image, weight)
        if parts is not None:
            return parts
    return None


def _parts(stage: Stage, fold: Fold, image: int, weight: int) -> ByteColumns | None:
    x, w = stage.elements[image], stage.elements[weight]
    if not isinstance(x, Read) or not isinstance(w, Read) or x.dtype is not I8 or w.fill is not None or x.guards:
        return None
    of_image, of_weight = ({axis for index in read.at for axis in index.variables()} for read in (x, w))
    channels = [axis for axis in stage.axes if axis in of_weight]
    places = tuple(axis for axis in stage.axes if axis in of_image and axis not in channels)
    if len(channels) != 1 or {*channels, *places} != {*stage.axes}:
        return None
    is_whole = all(Index.of(axis) in w.at for axis in (*channels, *fold.axes))
    if not is_whole or not {*fold.axes} <= of_image:
        return None
    return ByteColumns(image, weight, channels[0], places, channels[0] in of_image)


def in_byte_columns(stage: Stage, parts: ByteColumns, name: str) -> InByteColumns | None:
    """Return the two stages of a sum of products; the weights of the second one have another form.

    None: the image is not one of rows, columns and channels, each of them walked by axes of its own.

    Args:
        name: of the tensor between the stages.
    """
    fold, read, weight = stage.fold, stage.elements[parts.image], stage.elements[parts.weight]
    if fold is None or not isinstance(read, Read) or not isinstance(weight, Read):
        raise TypeError("products are the terms of a fold of two reads")
    row = _row(read, parts.places, fold)
    reached = {dim: _range(index) for dim, index in enumerate(read.at) if index.variables()}
    if row is None:
        return None
    dims = [*(dim for dim in reached if dim not in row), *row]
    begins, extents = zip(*(reached[dim] or (0, 0) for dim in dims), strict=True)
    names = free_names(stage)
    axes = tuple(Var(next(names), extent) for extent in extents)
    source = list(read.at)
    for dim, axis, begin in zip(dims, axes, begins, strict=True):
        source[dim] = axis + begin
    copy = Stage(name, axes, (replace(read, at=tuple(source)),), tree.Input(0, read.dtype), tuple(map(Index.of, axes)))
    # The last dimensions are walked as one: the bytes of neighbouring places follow one another.
    inner = [axis for dim in row for axis in _folded(read.at[dim], fold)]
    others = [axis for axis in fold.axes if axis not in inner]
    step = Var(next(names), prod(map(extent_of, inner)))
    taken = dict(zip(inner, digits_of(Index.of(step), [extent_of(axis) for axis in inner]), strict=True))
    at = tuple((read.at[dim] - begin).substituted(taken) for dim, begin in zip(dims, begins, strict=True))
    elements = list(stage.elements)
    elements[parts.image] = Read(name, at, read.dtype)
    elements[parts.weight] = replace(weight, at=tuple(map(Index.of, (parts.channels, *others, step))))
    return InByteColumns(
        Tensor(name, read.dtype, tuple(map(Index.of, extents))),
        copy,
        with_used_elements(replace(stage, elements=tuple(elements), fold=replace(fold, axes=(*others, step)))),
        tuple(weight.at.index(Index.of(axis)) for axis in (parts.channels, *others, *inner)),
        (extent_of(parts.channels), *map(extent_of, others), extent_of(step)),
    )


def _row(read: Read, places: Sequence[Var], fold: Fold) -> list[int] | None:
    """Return the dimensions of an image that lie innermost in columns: that of the last place, and the channels.

    None: one of them is walked in steps, or axes walk several dimensions.
    """
    walked = [axis for index in read.at for axis in index.variables()]
    dims = [dim for dim, index in enumerate(read.at) if index.variables()]
    last = next((dim for dim in dims if places[-1] in read.at[dim].variables()), None)
    channels = [dim for dim in dims if not read.at[dim].variables() & {*places}]
    if last is None or len(channels) > 1 or len(set(walked)) < len(walked):
        return None
    taps = _folded(read.at[last], fold)
    is_walked = all(_range(read.at[dim]) is not None for dim in dims)
    is_whole = all(read.at[dim] == Index.of(axis) for dim in channels for axis in read.at[dim].variables())
    is_dense = len(taps) <= 1 and all(read.at[last].coefficient(axis) == 1 for axis in taps)
    return [last, *channels] if is_walked and is_whole and is_dense else None


def _folded(index: Index, fold: Fold) -> list[Var]:
    return [axis for axis in index.variables() if axis in fold.axes]


def _range(index: Index) -> tuple[int, int] | None:
    """Return the least place of a dimension, and how many are reached."""
    low, high = index.interval.low, index.interval.high
    if low is None or high is None or any(index.coefficient(axis) is None for axis in index.variables()):
        return None
    return low, high - low + 1
