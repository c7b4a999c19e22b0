"""Products of bytes from columns of pairs: what several places read is widened once, for all channels of the result.

A stage that adds `sdot4` of words of an image and words of weights becomes two. The first one widens words of the image
to pairs of 16 bits; the second one multiplies the column of pairs that a place reads with the weights of two channels.
A word of its weights has a pair of bytes for either channel: two instructions widen it for all places of a tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, extent_of
from openinfer.affine.digits import digits_of
from openinfer.compute.modular_sums import with_used_elements
from openinfer.compute.stage import Position, Read, Stage, Tensor, Total, variables_of
from openinfer.compute.substitution import moved
from openinfer.dtypes import I32
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.compute.stage import Element, Fold
    from openinfer.expr.tree import Expr

HALVES = 2
"""Pairs that a word of bytes becomes, and channels that share a word of weights."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A sum of products of words of bytes whose image is the same for all channels of the result.

    Attributes:
        image: the word of the image, over elements.
        weight: number of the word of weights, which is a constant.
        channels: the axis of the channels, which the weights alone use in the terms.
        places: the axes of the places of the image.
    """

    image: Expr
    weight: int
    channels: Var
    places: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of columns.

    Attributes:
        index: where the products read, over the axes of their stage.
        axis: of the stage that widens.
    """

    index: Index
    axis: Var


@dataclass(frozen=True, slots=True)
class InColumns:
    """Two stages, with what is between them.

    Attributes:
        columns: the tensor between the stages.
        dims: its dimensions; the last one counts the pairs of a word.
        widening, products: the stages.
        channels: the axes of the second stage for two channels, and for each of them.
        folded: its folded axes; the last one walks pairs that follow one another.
        order: dimensions of the old weights, in the order in which the new ones have them: channels, folded axes.
    """

    columns: Tensor
    dims: tuple[Dim, ...]
    widening: Stage
    products: Stage
    channels: tuple[Var, Var]
    folded: tuple[Var, ...]
    order: tuple[int, ...]


def columns_of(stage: Stage) -> Columns | None:
    """Return the parts of a stage whose image is widened once for all channels; None: it is another one."""
    fold = stage.fold
    if fold is None or fold.running or len(fold.totals) != 1 or stage.lookups or stage.checks or stage.is_sequential:
        return None
    match fold.totals[0].term:
        case tree.Apply("sdot4", (image, tree.Input(weight), tree.Literal(0))):
            pass
        case _:
            return None
    w = stage.elements[weight]
    if not isinstance(w, Read) or w.fill is not None or weight in linearise(image).inputs:
        return None
    of_image = variables_of(image, stage.elements)
    of_weight = {axis for index in w.at for axis in index.variables()}
    channels = [axis for axis in stage.axes if axis in of_weight]
    places = tuple(axis for axis in stage.axes if axis in of_image)
    if len(channels) != 1 or not places or {*channels, *places} != {*stage.axes} or {*channels} & {*places}:
        return None
    (channel,) = channels
    is_whole = all(Index.of(axis) in w.at for axis in (channel, *fold.axes))
    if extent_of(channel) % HALVES or not is_whole or not {*fold.axes} <= of_image:
        return None
    return Columns(image, weight, channel, places)


def in_columns(stage: Stage, parts: Columns, name: str) -> InColumns:
    """Return the two stages of a sum of products; the weights of the second one have another form.

    Their dimensions have another order, the channels are half as many, and a last dimension counts the pairs of a word;
    those of folded axes that are contiguous in the columns are one with it.

    Args:
        name: of the tensor between the stages.
    """
    fold = stage.fold
    if fold is None:
        raise TypeError("products are the terms of a fold")
    names = free_names(stage)
    pairs = Var(next(names), HALVES)
    windows = _windows(stage, parts, names)
    if windows is None:
        walked = (*parts.places, *fold.axes)
        dims = tuple(Dim(Index.of(axis), Var(next(names), extent_of(axis))) for axis in walked)
        apart = {axis: Index.of(dim.axis) for axis, dim in zip(walked, dims, strict=True)}
        reads = {number: moved(stage.elements[number], apart) for number in linearise(parts.image).inputs}
    else:
        dims, reads = windows
    dims = (*dims, Dim(Index.of(pairs), Var(next(names), HALVES)))
    columns = Tensor(name, I32, tuple(Index.of(extent_of(dim.axis)) for dim in dims))
    inputs: dict[int, Expr] = {
        number: tree.Input(position, read.dtype) for position, (number, read) in enumerate(reads.items())
    }
    widening = Stage(
        name,
        tuple(dim.axis for dim in dims),
        (*reads.values(), Position(Index.of(dims[-1].axis), I32)),
        tree.widen(tree.substitute(parts.image, inputs), tree.Input(len(reads), I32)),
        tuple(Index.of(dim.axis) for dim in dims),
    )
    channels = (Var(next(names), extent_of(parts.channels) // HALVES), Var(next(names), HALVES))
    outer, inner = _folded(dims, fold)
    row = Var(next(names), prod(map(extent_of, inner)))
    weight = stage.elements[parts.weight]
    if not isinstance(weight, Read):
        raise TypeError("weights are read")
    order = tuple(weight.at.index(Index.of(axis)) for axis in (parts.channels, *outer, *inner[:-1]))
    places = dict(zip(inner, digits_of(Index.of(row), [extent_of(axis) for axis in inner]), strict=True))
    column = Read(name, tuple(dim.index.substituted(places) for dim in dims), I32)
    words = replace(weight, at=tuple(map(Index.of, (channels[0], *outer, row))))
    products = _products(stage, replace(fold, axes=(*outer, row)), parts, channels, column, words)
    return InColumns(columns, dims, widening, products, channels, (*outer, row), order)


def _folded(dims: Sequence[Dim], fold: Fold) -> tuple[list[Var], list[Var]]:
    """Return the folded axes in the order of dimensions: first others, then those whose places follow one another."""
    *before, pairs = dims
    inner = list(pairs.index.variables())
    for dim in reversed(before):
        axes = [*dim.index.variables()]
        if len(axes) != 1 or axes[0] not in fold.axes:
            break
        inner = [*axes, *inner]
    walked = [axis for dim in dims for axis in dim.index.variables() if axis in fold.axes]
    return [axis for axis in walked if axis not in inner], inner


def _windows(stage: Stage, parts: Columns, names: Iterator[str]) -> tuple[tuple[Dim, ...], dict[int, Element]] | None:
    """Return the dimensions of an image that windows slide over, and its read; each word of it is widened once.

    None: its places are not such dimensions, one of them for each axis.
    """
    read = stage.elements[parts.image.index] if isinstance(parts.image, tree.Input) else None
    if not isinstance(read, Read) or not isinstance(parts.image, tree.Input):
        return None
    walked = [axis for index in read.at for axis in index.variables()]
    if len(set(walked)) < len(walked):
        return None
    dims: list[Dim] = []
    at: list[Index] = []
    for index in read.at:
        low, high = index.interval.low, index.interval.high
        if low is None or high is None or any(index.coefficient(axis) is None for axis in index.variables()):
            return None
        if not index.variables():
            at.append(index)
            continue
        dims.append(Dim(index - low, Var(next(names), high - low + 1)))
        at.append(dims[-1].axis + low)
    # Rows and columns of the image lie outside, as axes of places do.
    dims.sort(key=lambda dim: not dim.index.variables() & {*parts.places})
    return tuple(dims), {parts.image.index: replace(read, at=tuple(at))}


def _products(stage: Stage, fold: Fold, parts: Columns, channels: tuple[Var, Var], column: Read, weight: Read) -> Stage:
    """Return the stage that multiplies columns with the weights of two channels."""
    pair, half = channels
    values = {parts.channels: pair * HALVES + half}
    elements = [moved(element, values) for element in stage.elements]
    elements[parts.weight] = weight
    number = len(elements)
    elements += [column, Position(Index.of(half), I32)]
    widened = tree.widen(tree.Input(parts.weight, I32), tree.Input(number + 1, I32))
    term = tree.dot2(tree.Input(number, I32), widened, tree.literal(0, I32))
    total = Total(fold.totals[0].start, term, fold.totals[0].combine)
    axes = [axis for old in stage.axes for axis in (channels if old == parts.channels else (old,))]
    made = replace(
        stage,
        axes=tuple(axes),
        elements=tuple(elements),
        at=tuple(index.substituted(values) for index in stage.at),
        fold=replace(fold, totals=(total,)),
    )
    return with_used_elements(made)


def without_single_places(stage: Stage) -> Stage:
    """Return a stage without its axes of one place, those of its fold included."""
    values = {axis: Index() for axis in stage.all_axes if extent_of(axis) == 1}
    fold = stage.fold
    return replace(
        stage,
        axes=tuple(axis for axis in stage.axes if axis not in values),
        elements=tuple(moved(element, values) for element in stage.elements),
        at=tuple(index.substituted(values) for index in stage.at),
        fold=fold and replace(fold, axes=tuple(axis for axis in fold.axes if axis not in values)),
    )


def free_names(stage: Stage) -> Iterator[str]:
    taken = {var.name for var in stage.all_axes}
    return (name for number in count() if (name := f"i{number}") not in taken)
