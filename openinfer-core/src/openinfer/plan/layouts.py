"""Layouts of intermediate results: channels innermost where windows slide over them, with room for what readers reach.

A window that reads past the border of a tensor finds zeros there, or the code of zero, in the halo of its layout, so
that no inner loop has to test where it is. Values of the caller, and those that a hand-written kernel touches, stay in
row-major order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.dtypes import F32, I8, U8
from openinfer.expr.linear import linearise
from openinfer.layout import Digit, Layout
from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.step_edits import operands_by_tensor
from openinfer.plan.steps import ComputeStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage, Tensor
    from openinfer.ir.types import TensorType
    from openinfer.plan.steps import Procedure

LARGEST_GROWTH = 2
"""A halo that makes a tensor larger than this many times its size is left out: its readers test where they are."""

WAYS = 8
"""Lines of a set of the first cache."""

_RANK = 4
"""Images: batch, channels, rows, columns."""


def movable(procedures: Sequence[Procedure], candidates: int) -> int:
    """Return which values may have any layout: those that nothing but computations touches."""
    fixed = 0
    for procedure in procedures:
        for step in walk(procedure.steps):
            if not isinstance(step, ComputeStep) or step.arguments:
                fixed |= reads(step) | writes(step)
            else:
                fixed |= _index_reads(step)
    return candidates & ~fixed


def _index_reads(step: ComputeStep) -> int:
    """Return the values that the indices of table entries read."""
    direct = sum({1 << operand.value for operand in step.inputs if isinstance(operand, ValueRef)})
    return reads(step) & ~direct


def layouts_of(
    procedures: Sequence[Procedure], types: Sequence[TensorType], free: int, target: TargetInfo
) -> dict[int, Layout]:
    """Return the layouts of values that are better off in another order than row-major.

    Args:
        types: type of each value.
        free: values whose layout may be chosen, as bits.
    """
    uses = list(_uses(procedures))
    slid = {value for value, tensor, stage in uses if slides(stage, tensor)}
    layouts: dict[int, Layout] = {}
    for value in members(free):
        shape = types[value].shape
        if value not in slid or len(shape) != _RANK or shape[2] * shape[3] <= 1 or not types[value].count:
            continue
        readers = [(tensor, stage) for other, tensor, stage in uses if other == value]
        fill = halo_fill(readers)
        halo = halo_of(readers, shape, fill)
        layouts[value] = channels_last(shape, max(types[value].dtype.bits // 8, 1), target, halo, fill)
    return layouts | (_computed_weights(uses, types, free) if target.mve else {})


def _computed_weights(
    uses: Sequence[tuple[int, Tensor, Stage]], types: Sequence[TensorType], free: int
) -> dict[int, Layout]:
    """Return layouts of weights that steps compute, with the channels of the result innermost, as lanes read them.

    With lanes along the terms each result is a sum across lanes: GCC 12 moves each of them through a core register.
    """
    layouts: dict[int, Layout] = {}
    for value in members(free):
        stages = [(tensor, stage) for other, tensor, stage in uses if other == value]
        writers = [stage for tensor, stage in stages if stage.tensor == tensor.name]
        readers = [(tensor, stage) for tensor, stage in stages if stage.tensor != tensor.name]
        if len(writers) != 1 or len(readers) != 1 or writers[0].fold is not None:
            continue
        dim = _channels_of_weight(*readers[0])
        if dim is not None:
            shape = types[value].shape
            order = [*(other for other in range(len(shape)) if other != dim), dim]
            digits = tuple(Digit(other, 1, Index.of(shape[other])) for other in order)
            layouts[value] = Layout(tuple(map(Index.of, shape)), digits)
    return layouts


def _channels_of_weight(tensor: Tensor, stage: Stage) -> int | None:
    """Return the dimension of a weight of f32 that the channels of a sum of products walk; None: it has none."""
    reads = [element for element in stage.elements if isinstance(element, Read) and element.tensor == tensor.name]
    fold = stage.fold
    if fold is None or len(reads) != 1 or tensor.dtype is not F32 or reads[0].fill is not None:
        return None
    (weight,) = reads
    images = [element for element in stage.elements if isinstance(element, Read) and element is not weight]
    walked = {axis for image in images for index in image.at for axis in index.variables()}
    own = [dim for dim, index in enumerate(weight.at) if any(index == Index.of(axis) for axis in stage.axes)]
    folded = {axis for index in weight.at for axis in index.variables()} & {*fold.axes}
    return own[0] if len(own) == 1 and folded and folded <= walked else None


def channels_last(
    shape: Sequence[int], itemsize: int, target: TargetInfo, halo: Sequence[tuple[int, int]] = (), fill: int = 0
) -> Layout:
    """Return the layout of an image [batch, channels, rows, columns] whose channels lie innermost.

    Channels are padded to whole vector registers, or, where they are fewer than lanes, to a power of two. A cache line
    is added where neighbouring places would all lie in two sets of the first cache, which hold few lines of a tile.

    Args:
        itemsize: bytes of an element.
        halo: places before and after the rows and the columns; none by default. ``fill`` is the element there.
    """
    batch, channels, rows, columns = shape
    around = tuple(halo) or ((0, 0), (0, 0))
    padded = _padded(channels, target.lanes(itemsize))
    if padded * itemsize % (target.l1_nbytes // WAYS // 2) == 0:
        padded += target.line_nbytes // itemsize
    extents = ((0, batch), (2, rows + sum(around[0])), (3, columns + sum(around[1])), (1, padded))
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in extents)
    places = ((0, 0), (0, 0), *around) if any(map(any, around)) else ()
    return Layout(tuple(Index.of(extent) for extent in shape), digits, places, fill if places else 0)


def _padded(channels: int, lanes: int) -> int:
    while lanes >= 2 * channels:
        lanes //= 2
    return -(-channels // lanes) * lanes


def _uses(procedures: Iterable[Procedure]) -> Iterator[tuple[int, Tensor, Stage]]:
    """Yield each value with a stage that reads or writes it, and the tensor that it is there."""
    for procedure in procedures:
        for step in walk(procedure.steps):
            if isinstance(step, ComputeStep):
                yield from _uses_of(step)


def _uses_of(step: ComputeStep) -> Iterator[tuple[int, Tensor, Stage]]:
    values = tensor_values(step)
    for stage in step.computation.stages:
        touched = [stage.tensor, *(element.tensor for element in stage.elements if isinstance(element, Read))]
        for name in dict.fromkeys(touched):
            if name in values:
                yield values[name], step.computation.tensor(name), stage


def tensor_values(step: ComputeStep) -> Mapping[str, int]:
    """Return the values that the tensors of a computation are; entries of tables are not among them."""
    operands = operands_by_tensor(step).items()
    return {name: operand.value for name, operand in operands if isinstance(operand, ValueRef)}


def slides(stage: Stage, tensor: Tensor) -> bool:
    """Return whether a stage folds windows of an image, which the tensor is, or collects their totals in it."""
    if stage.fold is None or len(stage.at) != _RANK or len(tensor.shape) != _RANK:
        return False
    rows, columns = stage.at[2].variables(), stage.at[3].variables()
    if not rows or not columns:
        return False
    images = {
        number: element.tensor
        for number, element in enumerate(stage.elements)
        if isinstance(element, Read)
        and len(element.at) == _RANK
        and rows <= element.at[2].variables()
        and columns <= element.at[3].variables()
    }
    # Rows and columns of a product of matrices are those of different operands: neither is an image. What is added to
    # the product has both, too.
    if not any(images.keys() & set(linearise(total.term).inputs) for total in stage.fold.totals):
        return False
    return tensor.name in images.values() or tensor.name == stage.tensor


def halo_fill(uses: Iterable[tuple[Tensor, Stage]]) -> int:
    """Return the element that readers of an image want past its border: of bytes any that they agree on, else 0."""
    fills = {
        int(element.fill.value)
        for tensor, stage in uses
        for element in stage.elements
        if isinstance(element, Read) and element.tensor == tensor.name and element.fill is not None
        if element.dtype in (I8, U8)
    }
    return fills.pop() if len(fills) == 1 else 0


def halo_of(uses: Iterable[tuple[Tensor, Stage]], shape: Sequence[int], fill: int = 0) -> list[tuple[int, int]]:
    """Return how far readers reach past the rows and columns of an image [batch, channels, rows, columns] for ``fill``.

    Nothing where they reach so far that the image would grow beyond `LARGEST_GROWTH`.
    """
    reach = [(0, 0), (0, 0)]
    for tensor, stage in uses:
        for element in stage.elements:
            if not isinstance(element, Read) or element.tensor != tensor.name:
                continue
            if not element.fills_with(fill) or element.guards:
                continue
            for dim in (0, 1):
                low, high = element.at[dim + 2].interval.low, element.at[dim + 2].interval.high
                if low is None or high is None:
                    return [(0, 0), (0, 0)]
                before, after = reach[dim]
                reach[dim] = (max(before, -low), max(after, high - shape[dim + 2] + 1))
    grown = (shape[2] + sum(reach[0])) * (shape[3] + sum(reach[1]))
    return reach if grown <= LARGEST_GROWTH * shape[2] * shape[3] else [(0, 0), (0, 0)]
