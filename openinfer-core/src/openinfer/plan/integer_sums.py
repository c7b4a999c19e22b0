"""Quantised layers in integers: zero points of images in biases, and codes without conversions that saturate.

A sum of products of codes begins with its bias, less the zero point of the image times the sum of the weights
(`openinfer.compute.zero_points`); constants of one element become literals; and what a total is rounded to is computed
as `openinfer.compute.requantise` says, where the weights, biases and multipliers prove its range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.compute import Read, Tensor
from openinfer.compute.modular_sums import with_used_elements
from openinfer.compute.requantise import requantised
from openinfer.compute.zero_points import offset_sum, own_places, without_zero_point
from openinfer.dtypes import I8, I32, U8
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.plan.rewriting import with_steps
from openinfer.plan.steps import ComputeStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Fold, Stage
    from openinfer.compute.zero_points import OffsetSum
    from openinfer.expr.tree import Expr
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Operand, Procedure, Step

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Summed:
    """A step after its sums were rewritten.

    Attributes:
        largest: by number of the stage, what no total exceeds in magnitude.
    """

    step: ComputeStep
    largest: Mapping[int, float]


def with_integer_sums(procedures: Sequence[Procedure], data: PlanData) -> tuple[Procedure, ...]:
    """Return a program whose quantised layers are computed in integers; the data of its plan grows by their biases."""
    return with_steps(procedures, lambda step: (_rewritten(step, data),))


def _rewritten(step: Step, data: PlanData) -> Step:
    if not isinstance(step, ComputeStep) or step.arguments:
        return step
    summed = _with_biases(step, data)
    step = summed.step
    operands = dict(zip((tensor.name for tensor in step.computation.inputs), step.inputs, strict=True))
    stages = tuple(
        _in_codes(stage, operands, summed.largest.get(place), data)
        for place, stage in enumerate(step.computation.stages)
    )
    return _with_used_inputs(replace(step, computation=replace(step.computation, stages=stages)))


def _with_biases(step: ComputeStep, data: PlanData) -> _Summed:
    """Return a step whose sums of products of codes have no zero point, and begin with their bias."""
    largest: dict[int, float] = {}
    for place, stage in enumerate(step.computation.stages):
        computation, fold = step.computation, stage.fold
        parts = offset_sum(stage, computation)
        if parts is None or fold is None:
            continue
        operands = dict(zip((tensor.name for tensor in computation.inputs), step.inputs, strict=True))
        made = _start(stage, fold, parts, operands, data)
        if made is None:
            continue
        start, zero, largest[place] = made
        names = {t.name for t in (*computation.inputs, *computation.outputs, *computation.temporaries)}
        name = next(n for number in range(len(names) + 1) if (n := f"x{number}") not in names)
        shape = tuple(map(Index.of, _shape(start, data)))
        stages = list(computation.stages)
        stages[place] = without_zero_point(stage, parts, zero, name)
        tensors = (*computation.inputs, Tensor(name, I32, shape))
        step = replace(
            step,
            computation=replace(computation, inputs=tensors, stages=tuple(stages)),
            inputs=(*step.inputs, start),
        )
    return _Summed(step, largest)


def _start(
    stage: Stage, fold: Fold, parts: OffsetSum, operands: Mapping[str, Operand], data: PlanData
) -> tuple[Operand, int, float] | None:
    """Return what the totals of a sum begin with, the zero point of its image, and what no total exceeds.

    None: the weights, the zero point or the bias are not constants that go together.
    """
    image, weight = stage.elements[parts.image], stage.elements[parts.weight]
    zero_read, bias = (None if n is None else stage.elements[n] for n in (parts.zero, parts.bias))
    if not isinstance(weight, Read) or not isinstance(bias, Read | None):
        return None
    zero = data.scalar(operands[zero_read.tensor]) if isinstance(zero_read, Read) else 0
    read = [weight] if bias is None else [weight, bias]
    if zero is None or not all(e.tensor in operands and data.arrays(operands[e.tensor]) for e in read):
        return None
    folded = tuple(dim for dim, index in enumerate(weight.at) if index.variables() & set(fold.axes))
    own = own_places(weight, fold)
    biases = () if bias is None else _dims(bias, own)
    if biases is None:
        return None
    ones = (0,) * sum(not index.variables() for index in (() if bias is None else bias.at))

    def begin(codes: Array, added: Array | None = None) -> Array:
        sums = -int(zero) * codes.sum(axis=folded, dtype=np.int64)
        if added is not None:
            sums = sums + added.transpose(biases)[ones]
        return sums.astype(np.int32)

    start = data.combined([operands[e.tensor] for e in read], begin, I32)
    codes, begins = data.arrays(operands[weight.tensor]), None if start is None else data.arrays(start)
    if start is None or codes is None or begins is None:
        return None
    most = max(-(image.dtype.minimum or 0), image.dtype.maximum or 0)
    sums = (np.abs(array.astype(np.int64)).sum(axis=folded).max(initial=0) for array in codes)
    first = max(int(np.abs(array.astype(np.int64)).max(initial=0)) for array in begins)
    return start, int(zero), float(first + int(most) * int(max(sums)))


def _dims(bias: Read, own: Sequence[Index]) -> tuple[int, ...] | None:
    """Return the order of the dimensions of a bias in which it has the places of weights; None: it has others.

    Dimensions without an axis come first.
    """
    order = [dim for index in own for dim, other in enumerate(bias.at) if other == index]
    rest = [dim for dim, index in enumerate(bias.at) if index == Index()]
    if bias.fill is not None or not all(index.variables() for index in own):
        return None
    if len(order) not in (0, len(own)) or len(order) + len(rest) != len(bias.at):
        return None
    return (*rest, *order)


def _shape(operand: Operand, data: PlanData) -> tuple[int, ...]:
    arrays = data.arrays(operand)
    if arrays is None:
        raise TypeError(f"{operand} is not a constant")
    return arrays[0].shape


def _in_codes(stage: Stage, operands: Mapping[str, Operand], largest: float | None, data: PlanData) -> Stage:
    """Return a stage that rounds to codes as `openinfer.compute.requantise` does, if it is one of codes."""
    if stage.lookups or stage.checks or (largest is None and stage.value.dtype not in (I8, U8)):
        return stage
    literals: dict[int, Expr] = {}
    for number, element in enumerate(stage.elements):
        if isinstance(element, Read) and element.fill is None and element.tensor in operands:
            scalar = data.scalar(operands[element.tensor])
            if scalar is not None:
                literals[number] = tree.literal(scalar, element.dtype)
    value = _without_units(tree.substitute(stage.value, literals))
    magnitudes = {
        number: bound
        for number in linearise(value).inputs
        if number >= 0 and (bound := _bound(stage, number, operands, data)) is not None
    }
    if largest is not None:
        magnitudes[~0] = largest
    return with_used_elements(replace(stage, value=requantised(value, magnitudes)))


def _bound(stage: Stage, number: int, operands: Mapping[str, Operand], data: PlanData) -> float | None:
    """Return the largest magnitude of a constant that an expression reads; None: it is none, or not finite."""
    element = stage.elements[number]
    if not isinstance(element, Read) or element.tensor not in operands or element.fill is not None:
        return None
    arrays = data.arrays(operands[element.tensor])
    if arrays is None or any(array.dtype.kind not in "iuf" for array in arrays):
        return None
    largest = max((float(np.abs(array.astype(np.float64)).max(initial=0)) for array in arrays), default=0.0)
    return largest if np.isfinite(largest) else None


def _without_units(expr: Expr) -> Expr:
    """Return an expression without divisions by 1."""
    match expr:
        case tree.Apply("div", (number, tree.Literal(1)), _):
            return _without_units(number)
        case tree.Apply(function, args, dtype):
            return tree.Apply(function, tuple(map(_without_units, args)), dtype)
        case _:
            return expr


def _with_used_inputs(step: ComputeStep) -> ComputeStep:
    """Return a step without the operands that no stage reads."""
    computation = step.computation
    read = {name for stage in computation.stages for name in stage.tensors_read}
    pairs = [pair for pair in zip(computation.inputs, step.inputs, strict=True) if pair[0].name in read]
    if len(pairs) == len(step.inputs):
        return step
    tensors, inputs = tuple(tensor for tensor, _ in pairs), tuple(operand for _, operand in pairs)
    return replace(step, computation=replace(computation, inputs=tensors), inputs=inputs)
