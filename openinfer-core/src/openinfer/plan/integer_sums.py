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
from openinfer.plan.fixed_multipliers import with_fixed_multipliers
from openinfer.plan.rewriting import with_computations
from openinfer.plan.step_edits import free_name, operands_by_tensor, with_further_input, with_stage
from openinfer.plan.steps import ComputeStep, TableRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Fold, Stage
    from openinfer.compute.zero_points import OffsetSum
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Operand, Procedure

    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Summed:
    """A step after its sums were rewritten.

    Attributes:
        totals: by number of the stage, what bounds its totals.
    """

    step: ComputeStep
    totals: Mapping[int, _Totals]


@dataclass(frozen=True, slots=True)
class _Totals:
    """What the totals of a stage begin with, and what none of them exceeds.

    Attributes:
        start: the operand that they begin with, a bias less what the zero point takes away.
        zero: the zero point of the image.
        own: places of the weights in the dimensions that no folded axis walks.
        largest: the largest magnitude of a total at each of these places, for each entry of the table of ``start``.
    """

    start: Operand
    zero: int
    own: tuple[Index, ...]
    largest: Array


def with_integer_sums(
    procedures: Sequence[Procedure], data: PlanData, *, has_floats: bool = True
) -> tuple[Procedure, ...]:
    """Return a program whose quantised layers are computed in integers; the data of its plan grows by their biases.

    Args:
        has_floats: whether the machine computes in floats.
    """
    return with_computations(procedures, lambda step: (_rewritten(step, data, has_floats=has_floats),))


def _rewritten(step: ComputeStep, data: PlanData, *, has_floats: bool) -> ComputeStep:
    if step.arguments:
        return step
    summed = _with_biases(step, data)
    step = summed.step
    operands = operands_by_tensor(step)
    stages = tuple(
        _in_codes(stage, operands, summed.totals.get(number), data, has_floats=has_floats)
        for number, stage in enumerate(step.computation.stages)
    )
    step = replace(step, computation=replace(step.computation, stages=stages))
    return _with_used_inputs(step if has_floats else with_fixed_multipliers(step, data))


def _with_biases(step: ComputeStep, data: PlanData) -> _Summed:
    """Return a step whose sums of products of codes have no zero point, and begin with their bias."""
    totals: dict[int, _Totals] = {}
    for number, stage in enumerate(step.computation.stages):
        computation, fold = step.computation, stage.fold
        parts = offset_sum(stage, computation)
        if parts is None or fold is None:
            continue
        made = _start(stage, fold, parts, operands_by_tensor(step), data)
        if made is None:
            continue
        totals[number] = made
        name = free_name(computation, "x")
        shape = tuple(map(Index.of, _shape(made.start, data)))
        step = with_further_input(step, Tensor(name, I32, shape), made.start)
        step = with_stage(step, number, without_zero_point(stage, parts, made.zero, name))
    return _Summed(step, totals)


def _start(
    stage: Stage, fold: Fold, parts: OffsetSum, operands: Mapping[str, Operand], data: PlanData
) -> _Totals | None:
    """Return what bounds the totals of a sum; None: weights, zero point or bias are not constants that go together."""
    image, weight = stage.elements[parts.image], stage.elements[parts.weight]
    zero_read, bias = (None if n is None else stage.elements[n] for n in (parts.zero, parts.bias))
    if not isinstance(weight, Read) or not isinstance(bias, Read | None):
        return None
    zero = 0
    if isinstance(zero_read, Read):
        # A temporary of the computation is not an operand.
        zero = data.scalar(operands[zero_read.tensor]) if zero_read.tensor in operands else None
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
    largest = [_largest(first, array, folded, image.dtype) for first, array in zip(begins, codes, strict=True)]
    return _Totals(start, int(zero), own, np.array(largest))


def _largest(first: Array, codes: Array, folded: tuple[int, ...], dtype: DType) -> Array:
    """Return the largest magnitude of totals that begin with ``first``, for any image of a type."""
    wide = codes.astype(np.int64)
    ends = [wide * int(limit or 0) for limit in (dtype.minimum, dtype.maximum)]
    low, high = (first + extremum(*ends).sum(axis=folded) for extremum in (np.minimum, np.maximum))
    return np.maximum(np.abs(low), np.abs(high))


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


def _in_codes(
    stage: Stage, operands: Mapping[str, Operand], totals: _Totals | None, data: PlanData, *, has_floats: bool
) -> Stage:
    """Return a stage that rounds to codes as `openinfer.compute.requantise` does, if it is one of codes."""
    if stage.lookups or stage.checks or (totals is None and stage.value.dtype not in (I8, U8)):
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
        if number >= 0 and (bound := _bound(stage, number, totals, operands, data)) is not None
    }
    if totals is not None:
        magnitudes[~0] = totals.largest.astype(np.float64)
    return with_used_elements(replace(stage, value=requantised(value, magnitudes, has_floats=has_floats)))


def _bound(
    stage: Stage, number: int, totals: _Totals | None, operands: Mapping[str, Operand], data: PlanData
) -> Array | None:
    """Return the largest magnitude of a constant that an expression reads; None: it is none, or not finite.

    It has the dimensions of ``totals.largest``, of one element where it does not depend on the entry or the place.
    """
    element = stage.elements[number]
    if not isinstance(element, Read) or element.tensor not in operands or element.fill is not None:
        return None
    operand = operands[element.tensor]
    arrays = data.arrays(operand)
    if arrays is None or any(array.dtype.kind not in "iuf" for array in arrays):
        return None
    largest = np.abs(np.array(arrays, np.float64))
    if not np.isfinite(largest).all():
        return None
    if totals is None:
        return largest.max(initial=0)
    tables = [reference for reference in (totals.start, operand) if isinstance(reference, TableRef)]
    if len(tables) < 2 or not data.go_together(tables):
        largest = largest.max(axis=0, keepdims=True)
    dims = [next((dim for dim, at in enumerate(element.at, 1) if at == index), None) for index in totals.own]
    kept = [dim for dim in dims if dim is not None]
    others = tuple(dim for dim in range(1, largest.ndim) if dim not in kept)
    ordered = largest.max(axis=others, initial=0).transpose([0, *(1 + sorted(kept).index(dim) for dim in kept)])
    return ordered.reshape([largest.shape[0], *(1 if dim is None else largest.shape[dim] for dim in dims)])


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
