"""Images of three or four channels of bytes, written a word for each pixel.

Their channels lie innermost, four bytes for each pixel, and what they are made of often has its pixels in a row: a
network's input of reals with a plane for each channel. So lanes are pixels, and the channels of each are put together
in registers. Other bytes of a word get zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Read, Tensor
from openinfer.compute.dot_products import BYTES
from openinfer.compute.substitution import moved
from openinfer.dtypes import I8, I32, U8
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.plan.values import NoMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute import Element, Stage
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.plan.steps import ComputeStep
    from openinfer.plan.values import PlanValue


def with_word_results(step: ComputeStep, values: Sequence[PlanValue]) -> ComputeStep:
    """Return a step that writes the bytes of a pixel at once where they are a word; the layouts of values are known."""
    computation = step.computation
    outputs, stages = list(computation.outputs), list(computation.stages)
    for number, (tensor, value) in enumerate(zip(computation.outputs, step.outputs, strict=True)):
        places = [number for number, stage in enumerate(stages) if stage.tensor == tensor.name]
        readers = [e for stage in stages for e in stage.elements if isinstance(e, Read) and e.tensor == tensor.name]
        if (
            len(places) != 1
            or readers
            or tensor.dtype not in (I8, U8)
            or not isinstance(values[value].memory, NoMemory)
        ):
            continue
        stage, layout = stages[places[0]], values[value].layout
        dim = None if layout is None else _dim_of_words(layout)
        axis = None if dim is None else _axis(stage, dim)
        if dim is None or axis is None:
            continue
        stages[places[0]] = _in_words(stage, axis)
        shape = tuple(Index.of(1) if d == dim else extent for d, extent in enumerate(tensor.shape))
        outputs[number] = Tensor(tensor.name, I32, shape)
    if stages == list(computation.stages):
        return step
    return replace(step, computation=replace(computation, outputs=tuple(outputs), stages=tuple(stages)))


def _dim_of_words(layout: Layout) -> int | None:
    """Return the dimension whose elements are the bytes of a word, with room for four of them; None: there is none."""
    last = layout.digits[-1]
    if last.extent.constant != BYTES or last.stride != 1 or sum(digit.dim == last.dim for digit in layout.digits) != 1:
        return None
    if layout.shape[last.dim].constant not in (BYTES - 1, BYTES) or (layout.halo and any(layout.halo[last.dim])):
        return None
    return last.dim


def _axis(stage: Stage, dim: int) -> Var | None:
    """Return the axis along which a stage makes the bytes of a word; None: its places are not free."""
    if stage.fold is not None or stage.lookups or stage.checks or stage.is_sequential:
        return None
    (axis, *others) = stage.at[dim].variables() or (None,)
    if axis is None or others or stage.at[dim] != Index.of(axis) or axis.extent not in (BYTES - 1, BYTES):
        return None
    return None if any(axis in at.variables() for d, at in enumerate(stage.at) if d != dim) else axis


def _in_words(stage: Stage, axis: Var) -> Stage:
    """Return a stage that computes the values along an axis together, as the bytes of a word."""
    elements: list[Element] = []
    parts: list[Expr] = [tree.literal(0, stage.value.dtype)] * BYTES
    types = {step.index: step.dtype for step in linearise(stage.value).instructions if step.function == "input"}
    for lane in range(axis.extent if isinstance(axis.extent, int) else 0):
        numbers: dict[int, Expr] = {}
        for number, dtype in types.items():
            element = moved(stage.elements[number], {axis: Index() + lane})
            if element not in elements:
                elements.append(element)
            numbers[number] = tree.Input(elements.index(element), dtype)
        parts[lane] = tree.substitute(stage.value, numbers)
    return replace(
        stage,
        axes=tuple(other for other in stage.axes if other != axis),
        elements=tuple(elements),
        at=tuple(at.substituted({axis: Index()}) for at in stage.at),
        value=tree.word(*parts),
    )
