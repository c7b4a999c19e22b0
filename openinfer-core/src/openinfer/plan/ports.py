"""Copies between arrays of the caller, whose order is fixed, and images in the order that windows run quickly in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Computation, Read, Stage, Tensor
from openinfer.expr import tree
from openinfer.layout import Digit, Layout, row_major
from openinfer.plan.borders import needs_no_copy
from openinfer.plan.layouts import channels_last, halo_fill, halo_of, slides, tensor_values
from openinfer.plan.rewriting import with_computations
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.values import NoMemory, PlanValue, Role, stored_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.ir.types import TensorType
    from openinfer.plan.halos import Room
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PackedWeight


LARGEST_ALIGNED = 1.3
"""A border may make rows so many times longer, so that they begin at cache lines: vectors then cross fewer of them."""


@dataclass(frozen=True, slots=True)
class Borders:
    """What decides which images get a border.

    Attributes:
        layouts: those that were chosen, by number of the value.
        free: values whose layout may be chosen, as bits.
        room: what the arena has room for; None: for all copies.
    """

    layouts: Mapping[int, Layout]
    weights: Sequence[PackedWeight]
    free: int
    target: TargetInfo
    room: Room | None = None


def bordered(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], borders: Borders
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the program with a copy before each step that reads past the border of a value whose layout is fixed.

    There is none where the step takes no longer than with the copy (`openinfer.plan.borders`).
    """
    changed = list(values)
    made = with_computations(procedures, lambda step: _with_border(step, changed, borders))
    return made, tuple(changed)


def aligned(
    procedures: Sequence[Procedure],
    values: Sequence[PlanValue],
    images: Callable[[ComputeStep], Sequence[int]],
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the program with a copy before each step that reads images of the caller in words.

    Args:
        images: returns the values that a step reads so.
    """
    changed = list(values)

    def change(step: ComputeStep) -> Iterator[Step]:
        inputs = list(step.inputs)
        for number in images(step):
            copy = _relaid(
                changed, changed[number], "aligned", row_major(tuple(map(Index.of, changed[number].type.shape)))
            )
            inputs = [ValueRef(copy.number) if operand == ValueRef(number) else operand for operand in inputs]
            yield _copy(step, "copy", number, copy)
        yield replace(step, inputs=tuple(inputs))

    return with_computations(procedures, change), tuple(changed)


def collected(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], free: int, target: TargetInfo
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the program with a copy after each step whose result has its lanes elsewhere than its inputs.

    That is a window whose neighbouring columns read elements apart, into a value whose columns lie in a row: its
    channels are computed together, and transposed afterwards.

    Args:
        free: values whose layout may be chosen, as bits.
    """
    changed = list(values)
    made = with_computations(procedures, lambda step: _with_collection(step, changed, free, target))
    return made, tuple(changed)


def _with_border(step: ComputeStep, values: list[PlanValue], borders: Borders) -> Iterator[Step]:
    """Yield copies of the inputs that a step reads past the border of, then the step; ``values`` grow by the copies."""
    inputs = list(step.inputs)
    room, target = borders.room, borders.target
    for number, (tensor, operand) in enumerate(zip(step.computation.inputs, step.inputs, strict=True)):
        if not isinstance(operand, ValueRef) or borders.free >> operand.value & 1 or _is_sized(tensor):
            continue
        uses = [(tensor, stage) for stage in step.computation.stages if slides(stage, tensor)]
        value = values[operand.value]
        fill = halo_fill(uses)
        halo: Sequence[tuple[int, int]] = halo_of(uses, value.type.shape, fill) if uses else []
        if not any(map(any, halo)):
            continue
        layout = _planar(value.type, _aligned(value.type, halo, target), fill)
        if room is not None and not room.has(step, stored_type(value.type, layout).nbytes):
            continue
        if needs_no_copy(step, tensor.name, layout, borders.layouts, values, borders.weights, target):
            continue
        copy = _relaid(values, value, "bordered", layout)
        inputs[number] = ValueRef(copy.number)
        yield _copy(step, "border", operand.value, copy)
    yield replace(step, inputs=tuple(inputs))


def _with_collection(step: ComputeStep, values: list[PlanValue], free: int, target: TargetInfo) -> Iterator[Step]:
    """Yield a step and copies of its results whose lanes lie elsewhere; ``values`` grow by what is copied."""
    outputs = list(step.outputs)
    copies: list[Step] = []
    for number, (tensor, output) in enumerate(zip(step.computation.outputs, step.outputs, strict=True)):
        value = values[output]
        if free >> output & 1 or not value.type.count or _is_sized(tensor) or not _reads_apart(step, tensor, values):
            continue
        itemsize = max(value.type.dtype.bits // 8, 1)
        made = _relaid(values, value, "collected", channels_last(value.type.shape, itemsize, target))
        outputs[number] = made.number
        copies.append(_copy(step, "transpose", made.number, value))
    yield replace(step, outputs=tuple(outputs))
    yield from copies


def _is_sized(tensor: Tensor) -> bool:
    """Return whether a tensor has extents that are known at run time only: copies have those of its room."""
    return any(extent.constant is None for extent in tensor.shape)


def _reads_apart(step: ComputeStep, output: Tensor, values: Sequence[PlanValue]) -> bool:
    """Whether windows for neighbouring columns of a result read elements that do not lie in a row."""
    numbers = tensor_values(step)
    for stage in step.computation.stages:
        if stage.tensor != output.name or not slides(stage, output) or stage.is_sequential:
            continue
        (column, *_) = stage.at[3].variables()
        for element in stage.elements:
            if isinstance(element, Read) and element.tensor in numbers:
                layout = values[numbers[element.tensor]].layout
                layout_read = layout or row_major(step.computation.tensor(element.tensor).shape)
                if layout_read.address(element.at).coefficient(column) not in (0, 1):
                    return True
    return False


def _relaid(values: list[PlanValue], value: PlanValue, suffix: str, layout: Layout) -> PlanValue:
    """Append a value of the same type in another layout."""
    name, number = f"{value.name}.{suffix}", len(values)
    values.append(replace(value, name=name, number=number, role=Role.TEMPORARY, memory=NoMemory(), layout=layout))
    return values[-1]


def _copy(step: ComputeStep, name: str, source: int, copy: PlanValue) -> ComputeStep:
    shape = tuple(Index.of(extent) for extent in copy.type.shape)
    x, y = Tensor("x0", copy.type.dtype, shape), Tensor("y0", copy.type.dtype, shape)
    axes = tuple(Var(f"i{dim}", extent) for dim, extent in enumerate(copy.type.shape))
    at = tuple(map(Index.of, axes))
    stage = Stage("y0", axes, (Read("x0", at, x.dtype),), tree.Input(0, x.dtype), at)
    computation = Computation(name, (x,), (y,), (stage,))
    return ComputeStep(
        origin=step.origin,
        op=name,
        computation=computation,
        inputs=(ValueRef(source),),
        outputs=(copy.number,),
        placement=step.placement,
    )


def _aligned(type: TensorType, halo: Sequence[tuple[int, int]], target: TargetInfo) -> Sequence[tuple[int, int]]:
    """Return a halo around rows and columns with which each row begins at a cache line, where that is cheap."""
    rows, (before, after) = halo
    line = target.line_nbytes * 8 // max(type.dtype.bits, 8)
    columns = type.shape[3]
    if before % line == 0:
        return halo
    first = -(-before // line) * line
    whole = -(-(first + columns + after) // line) * line
    is_cheap = whole <= LARGEST_ALIGNED * (before + columns + after)
    return [rows, (first, whole - first - columns)] if is_cheap else halo


def _planar(type: TensorType, halo: Sequence[tuple[int, int]], fill: int) -> Layout:
    """Return the layout of an image in row-major order with places around its rows and columns."""
    places = ((0, 0), (0, 0), *halo)
    extents = [n + before + after for n, (before, after) in zip(type.shape, places, strict=True)]
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in enumerate(extents))
    return Layout(tuple(Index.of(n) for n in type.shape), digits, places, fill)
