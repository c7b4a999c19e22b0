"""Calls evaluated as the operators are defined, on arrays, without a device."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openinfer.array_types import storage_dtype
from openinfer.compute import Order
from openinfer.compute.evaluate import evaluate, is_soon_known
from openinfer.dtypes import BUILTIN
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops.interpret import interpret
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.ops.shapes import folds_nothing
from openinfer.plugins.selection import (
    Computed,
    Decomposed,
    DerivedExpression,
    DerivedFold,
    KernelTable,
    Looped,
    choose,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute import Computation
    from openinfer.compute.stage import Stage, Total
    from openinfer.expr.tree import Expr
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import Choice

Array: TypeAlias = npt.NDArray[Any]

MOST_ADDED = 16
"""Terms of the longest sum of floats in any order that is evaluated here, one term after the other, such as products of
extents: devices add longer ones in parts, which is closer to the exact sum."""

_CHOOSING = frozenset({"cast", "input", "is_nan", "literal", "maximum", "minimum", "select"} | {"ge", "gt", "le", "lt"})
"""Functions that round nothing: a fold of these alone has one result in any order."""

_DTYPES = frozenset(dtype.name for dtype in BUILTIN)
_STAGES = KernelTable("definition", {}, _DTYPES, computations=True)
"""No kernels: every operator is what its definition says."""

_LOOPS = KernelTable("definition", {}, _DTYPES, computations=True, loop_programs=True)


class NotEvaluatedError(Exception):
    """A call has no one result, takes long, or has an operator that is defined by other means."""


def evaluate_call(
    call: OpCall, inputs: Sequence[Array | None], environment: Environment, *, loops: bool = False
) -> Sequence[Array]:
    """Return the results of a call, in storage form; packed types have one element a byte.

    Args:
        inputs: in the order of the call's; None for one that is not given.
        loops: whether loop programs are interpreted, element by element.

    Raises:
        NotEvaluatedError: it takes long, or its sums depend on an order that devices may choose.
        RefusedError: an operand is refused, such as an index out of range.
    """
    return _chosen(choose(call, partial(select, environment, _LOOPS if loops else _STAGES)), inputs)


def _chosen(choice: Choice, inputs: Sequence[Array | None]) -> Sequence[Array]:
    call, chosen = choice.call, choice.chosen
    operands = [array for array in inputs if array is not None]
    match chosen:
        case DerivedExpression(expr):
            return _of_elements(call, expr, inputs)
        case DerivedFold(axes, fold):
            source = call.inputs[0]
            if source is None or (fold.start is None and folds_nothing(source.shape, axes)):
                raise NotEvaluatedError
            return _evaluated(fold_computation(call.op, axes, fold, source, call.outputs[0]), operands[:1])
        case Computed(computation):
            return _evaluated(computation, operands)
        case Looped(kernel):
            return _interpreted(kernel, call, operands)
        case Decomposed(parts):
            arrays = {
                number: array
                for number, array in zip(parts.inputs, inputs, strict=True)
                if number is not None and array is not None
            }
            for step, part in zip(parts.steps, choice.parts, strict=True):
                made = _chosen(part, [None if number is None else arrays[number] for number in step.inputs])
                arrays.update(zip(step.outputs, made, strict=True))
            return [arrays[number] for number in parts.outputs]
        case _:
            raise NotEvaluatedError


def _of_elements(call: OpCall, expr: Expr, inputs: Sequence[Array | None]) -> Sequence[Array]:
    """Evaluate an expression on the inputs that it reads."""
    read = [(index, call.inputs[index], inputs[index]) for index in linearise(expr).inputs]
    types = [kind for _, kind, _ in read if kind is not None]
    operands = [array for _, _, array in read if array is not None]
    numbers: dict[int, Expr] = {
        index: tree.Input(place, types[place].dtype) for place, (index, _, _) in enumerate(read)
    }
    computation = expression_computation(call.op, tree.substitute(expr, numbers), types, call.outputs[0])
    return _evaluated(computation, operands)


def _evaluated(computation: Computation, operands: Sequence[Array]) -> Sequence[Array]:
    if computation.parameters or not all(is_soon_known(stage) and _is_settled(stage) for stage in computation.stages):
        raise NotEvaluatedError
    shaped = [
        array.reshape(tuple(extent.evaluate({}) for extent in tensor.shape)).astype(storage_dtype(tensor.dtype))
        for tensor, array in zip(computation.inputs, operands, strict=True)
    ]
    return evaluate(computation, shaped)


def _interpreted(kernel: Kernel, call: OpCall, operands: Sequence[Array]) -> Sequence[Array]:
    results = [np.zeros(prod(kind.shape), storage_dtype(kind.dtype)) for kind in call.outputs]
    arrays = [*(np.array(operand).reshape(-1) for operand in operands), *results]
    interpret(kernel, {buffer.name: array for buffer, array in zip(kernel.buffers, arrays, strict=True)})
    return [result.reshape(kind.shape) for result, kind in zip(results, call.outputs, strict=True)]


def _is_settled(stage: Stage) -> bool:
    """Whether the order of a fold hardly matters: of few terms, or of integers, or because none of it is rounded."""
    fold = stage.fold
    if fold is None or fold.order is Order.SEQUENTIAL or not any(map(_is_rounded, fold.totals)):
        return True
    return prod(axis.extent for axis in fold.axes if isinstance(axis.extent, int)) <= MOST_ADDED


def _is_rounded(total: Total) -> bool:
    steps = linearise(total.combine).instructions
    return any(step.dtype.is_float and step.function not in _CHOOSING for step in steps)
