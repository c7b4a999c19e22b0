"""Copies between arrays of the caller, whose order is fixed, and images in the order that windows run quickly in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Computation, Read, Stage, Tensor
from openinfer.expr import tree
from openinfer.layout import Digit, Layout, row_major
from openinfer.plan.layouts import channels_last, halo_of, slides, tensor_values
from openinfer.plan.steps import ComputeStep, LoopStep, Procedure, ValueRef
from openinfer.plan.values import NoMemory, PlanValue, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.ir.types import TensorType
    from openinfer.plan.steps import Step


def bordered(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], free: int
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the program with a copy before each step that reads past the border of a value whose layout is fixed.

    Args:
        free: values whose layout may be chosen, as bits.
    """
    copying = _Copying(list(values), free)
    return tuple(Procedure(p.name, copying.steps(p.steps)) for p in procedures), tuple(copying.values)


def collected(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], free: int, target: TargetInfo
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the program with a copy behind each step whose result has its lanes elsewhere than its inputs.

    That is a window whose neighbouring columns read elements apart, into a value whose columns lie in a row: its
    channels are computed together, and transposed afterwards.

    Args:
        free: values whose layout may be chosen, as bits.
    """
    collecting = _Collecting(list(values), free, target)
    return tuple(Procedure(p.name, collecting.steps(p.steps)) for p in procedures), tuple(collecting.values)


class _Rewriting:
    """Puts copies before or behind steps; ``values`` grow by those that are copied."""

    def __init__(self, values: list[PlanValue], free: int) -> None:
        self.values = values
        self._free = free

    def steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(made for step in steps for made in self._step(step))

    def _step(self, step: Step) -> Iterator[Step]:
        if isinstance(step, LoopStep):
            yield replace(step, body=self.steps(step.body))
        elif isinstance(step, ComputeStep):
            yield from self.computed(step)
        else:
            yield step

    def computed(self, step: ComputeStep) -> Iterator[Step]:
        """Yield a step with its copies."""
        raise NotImplementedError

    def _beside(self, value: PlanValue, suffix: str, layout: Layout) -> PlanValue:
        """Add a value of the same type in another layout."""
        name, number = f"{value.name}.{suffix}", len(self.values)
        self.values.append(
            replace(value, name=name, number=number, role=Role.TEMPORARY, memory=NoMemory(), layout=layout)
        )
        return self.values[-1]


class _Copying(_Rewriting):
    def computed(self, step: ComputeStep) -> Iterator[Step]:
        inputs = list(step.inputs)
        for number, (tensor, operand) in enumerate(zip(step.computation.inputs, step.inputs, strict=True)):
            if not isinstance(operand, ValueRef) or self._free >> operand.value & 1:
                continue
            uses = [(tensor, stage) for stage in step.computation.stages if slides(stage, tensor)]
            value = self.values[operand.value]
            halo = halo_of(uses, value.type.shape) if uses else []
            if any(map(any, halo)):
                copy = self._beside(value, "bordered", _planar(value.type, halo))
                inputs[number] = ValueRef(copy.number)
                yield _copy(step, "border", operand.value, copy)
        yield replace(step, inputs=tuple(inputs))


class _Collecting(_Rewriting):
    def __init__(self, values: list[PlanValue], free: int, target: TargetInfo) -> None:
        super().__init__(values, free)
        self._target = target

    def computed(self, step: ComputeStep) -> Iterator[Step]:
        outputs = list(step.outputs)
        copies: list[Step] = []
        for number, (tensor, output) in enumerate(zip(step.computation.outputs, step.outputs, strict=True)):
            value = self.values[output]
            if self._free >> output & 1 or not value.type.count or not self._reads_apart(step, tensor):
                continue
            lanes = self._target.lanes(max(value.type.dtype.bits // 8, 1))
            made = self._beside(value, "collected", channels_last(value.type.shape, lanes))
            outputs[number] = made.number
            copies.append(_copy(step, "transpose", made.number, value))
        yield replace(step, outputs=tuple(outputs))
        yield from copies

    def _reads_apart(self, step: ComputeStep, output: Tensor) -> bool:
        """Whether windows for neighbouring columns of a result read elements that do not lie in a row."""
        values = tensor_values(step)
        for stage in step.computation.stages:
            if stage.tensor != output.name or not slides(stage, output) or stage.is_sequential:
                continue
            (column, *_) = stage.at[3].variables()
            for element in stage.elements:
                if isinstance(element, Read) and element.tensor in values:
                    layout = self.values[values[element.tensor]].layout
                    place = layout or row_major(step.computation.tensor(element.tensor).shape)
                    if place.address(element.at).coefficient(column) not in (0, 1):
                        return True
        return False


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


def _planar(type: TensorType, halo: Sequence[tuple[int, int]]) -> Layout:
    """Return the layout of an image in row-major order with places around its rows and columns."""
    places = ((0, 0), (0, 0), *halo)
    extents = [n + before + behind for n, (before, behind) in zip(type.shape, places, strict=True)]
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in enumerate(extents))
    return Layout(tuple(Index.of(n) for n in type.shape), digits, places)
