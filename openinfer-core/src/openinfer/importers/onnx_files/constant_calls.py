"""Calls whose operands are all known, evaluated as the operators are defined.

A constant is then what the running program would have computed, whoever wrote the model's own definitions.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.compute import Order
from openinfer.compute.evaluate import RefusedError, evaluate, is_soon_known
from openinfer.dtypes import BUILTIN
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.importers.onnx_files.elements import stored_form
from openinfer.importers.onnx_files.values import Call, Value
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.ops.shapes import folds_nothing
from openinfer.plugins.selection import (
    Computed,
    Decomposed,
    DerivedExpression,
    DerivedFold,
    KernelTable,
    choose,
    select,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Computation
    from openinfer.compute.stage import Stage, Total
    from openinfer.expr.tree import Expr
    from openinfer.importers.onnx_files.source import Array
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import Choice

MOST_ADDED = 16
"""Terms of the longest sum of floats in any order that is evaluated here, one term after the other, such as products of
extents: devices add longer ones in parts, which is closer to the exact sum."""

_CHOOSING = frozenset({"cast", "input", "is_nan", "literal", "maximum", "minimum", "select"} | {"ge", "gt", "le", "lt"})
"""Functions that round nothing: a fold of these alone has one result in any order."""

_DEFINITIONS = KernelTable("import", {}, frozenset(dtype.name for dtype in BUILTIN), computations=True)
"""No kernels: every operator is what its definition says."""


class _LeftError(Exception):
    """A call is left to the program."""


def evaluated(
    calls: Sequence[Call], results: Sequence[Value | None], environment: Environment
) -> list[Array | None] | None:
    """Return the elements of results that calls compute of known values, in storage form; None: the program does.

    Calls are left to the program where they count rows, refuse their operands, or take long.
    """
    arrays: dict[int, Array] = {}
    try:
        with np.errstate(all="ignore"):
            for call in calls:
                made = _results(call, arrays, environment)
                arrays.update((id(value), array) for value, array in zip(call.outputs, made, strict=True))
        return [None if value is None else _elements(value, arrays) for value in results]
    except (_LeftError, RefusedError):
        return None


def _elements(value: Value, arrays: Mapping[int, Array]) -> Array:
    array = arrays.get(id(value))
    if array is not None and array.shape == value.shape:
        return array
    if value.payload is None:
        # A row count of the running program, or a value of another call.
        raise _LeftError
    return stored_form(value.array(), value.dtype)


def _results(call: Call, arrays: Mapping[int, Array], environment: Environment) -> Sequence[Array]:
    if type(call) is not Call:
        # Branches and loops.
        raise _LeftError
    types = [None if value is None else _type(value) for value in call.inputs]
    declared = [_type(value) for value in call.outputs] if call.declared else []
    settings = {
        name: _elements(setting, arrays).item() if isinstance(setting, Value) else cast("SettingValue", setting)
        for name, setting in call.settings.items()
    }
    op_call = call_of(environment.op(call.op), types, settings, declared)
    if op_call.has_sizes:
        raise _LeftError
    choice = choose(op_call, partial(select, environment, _DEFINITIONS))
    return _chosen(choice, [None if value is None else _elements(value, arrays) for value in call.inputs])


def _type(value: Value) -> TensorType:
    shape = value.shape
    if shape is None:
        raise _LeftError
    return TensorType(value.dtype, shape)


def _chosen(choice: Choice, inputs: Sequence[Array | None]) -> Sequence[Array]:
    call, chosen = choice.call, choice.chosen
    operands = [array for array in inputs if array is not None]
    match chosen:
        case DerivedExpression(expr):
            return _of_elements(call, expr, inputs)
        case DerivedFold(axes, fold):
            source = call.inputs[0]
            if source is None or (fold.start is None and folds_nothing(source.shape, axes)):
                raise _LeftError
            return _evaluated(fold_computation(call.op, axes, fold, source, call.outputs[0]), operands[:1])
        case Computed(computation):
            return _evaluated(computation, operands)
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
            raise _LeftError


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
        raise _LeftError
    shaped = [
        array.reshape(tuple(extent.evaluate({}) for extent in tensor.shape)).astype(storage_dtype(tensor.dtype))
        for tensor, array in zip(computation.inputs, operands, strict=True)
    ]
    return evaluate(computation, shaped)


def _is_settled(stage: Stage) -> bool:
    """Whether the order of a fold hardly matters: of few terms, or of integers, or because none of it is rounded."""
    fold = stage.fold
    if fold is None or fold.order is Order.SEQUENTIAL or not any(map(_is_rounded, fold.totals)):
        return True
    return prod(axis.extent for axis in fold.axes if isinstance(axis.extent, int)) <= MOST_ADDED


def _is_rounded(total: Total) -> bool:
    steps = linearise(total.combine).instructions
    return any(step.dtype.is_float and step.function not in _CHOOSING for step in steps)
