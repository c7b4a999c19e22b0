"""Fixtures of core's tests: the built-in operators, and one that carries an operator out by its definition.

The modules of `support` are importable: test folders are not packages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.builtin import openinfer_ops
from openinfer.compute.evaluate import evaluate as evaluate_stages
from openinfer.dtypes import BY_NAME, DType
from openinfer.expr import linearise
from openinfer.expr.numpy_renderer import compile_program
from openinfer.expr.tree import Expr
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, decomposition, fold_expression, scalar_expression
from openinfer.ops.calls import OpCall
from openinfer.ops.computations import computation_of
from openinfer.ops.schema import Composite, Elementwise, OpSchema, Reduction

sys.path.insert(0, str(Path(__file__).with_name("support")))

Array = np.ndarray[Any, Any]
Evaluate = Callable[..., Array]


@pytest.fixture(scope="session")
def catalog() -> Mapping[str, OpSchema]:
    """The built-in operators by name."""
    return {schema.name: schema for schema in openinfer_ops()}


@pytest.fixture(scope="session")
def evaluate(catalog: Mapping[str, OpSchema]) -> Evaluate:
    """Return ``evaluate(op, dtype, *values, **settings)``: the result by the operator's definition.

    A value is an array-like of ``dtype``, a pair of a dtype and an array-like, or None; packed types are unpacked.
    """

    def run(op: str, dtype: str | None, *values: Any, **settings: Any) -> Array:
        typed = [_typed(dtype, value) for value in values]
        types = [None if pair is None else TensorType(pair[0], pair[1].shape) for pair in typed]
        call = call_of(catalog[op], types, settings)
        return carry_out(catalog, call, [None if pair is None else pair[1] for pair in typed])

    return run


def _typed(dtype: str | None, value: Any) -> tuple[DType, Array] | None:
    if value is None:
        return None
    name, content = value if isinstance(value, tuple) and isinstance(value[0], str) else (dtype, value)
    assert name is not None
    return BY_NAME[name], np.asarray(content, dtype=storage_dtype(BY_NAME[name]))


def carry_out(catalog: Mapping[str, OpSchema], call: OpCall, inputs: list[Array | None]) -> Array:
    """Return the result of a call, from its expression, its fold element by element, its decomposition or stages."""
    schema = catalog[call.op]
    if isinstance(schema.definition, Elementwise):
        return computed(scalar_expression(schema, call), inputs, call.outputs[0])
    if isinstance(schema.definition, Reduction):
        assert inputs[0] is not None
        return folded(schema, call, inputs[0])
    if isinstance(schema.definition, Composite):
        return decomposed(catalog, call, inputs)
    return evaluate_stages(computation_of(schema, call), [given for given in inputs if given is not None])[0]


def computed(expr: Expr, inputs: list[Array | None], type_: TensorType) -> Array:
    out = np.empty(type_.shape, storage_dtype(type_.dtype))
    compile_program(linearise(expr))(inputs, out)
    return out


def folded(schema: OpSchema, call: OpCall, x: Array) -> Array:
    axes, fold = fold_expression(schema, call)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[axis] for axis in kept), -1)
    elements = computed(fold.element, [rows], TensorType(fold.element.dtype, rows.shape))
    shape = rows.shape[:-1]
    one = TensorType(fold.combine.dtype, shape)
    total, rest = elements[..., 0] if fold.start is None else None, elements[..., fold.start is None :]
    if fold.start is not None:
        total = computed(fold.start, [], one)
    for position in range(rest.shape[-1]):
        total = computed(fold.combine, [total, rest[..., position]], one)
    count = np.array(rows.shape[-1], np.int64)
    return computed(fold.finish, [total, count], TensorType(call.outputs[0].dtype, shape)).reshape(
        call.outputs[0].shape
    )


def decomposed(catalog: Mapping[str, OpSchema], call: OpCall, inputs: list[Array | None]) -> Array:
    steps = decomposition(catalog[call.op], call, catalog.__getitem__)
    values: dict[int, Array] = dict(enumerate(array for array in inputs if array is not None))
    for step in steps.steps:
        given = [None if place is None else values[place] for place in step.inputs]
        values[step.outputs[0]] = carry_out(catalog, step.call, given)
    return values[steps.outputs[0]]
