"""Which operators count as exact: what their definitions show, never what nobody said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.expr.tree import Expr
from openinfer.expr.verify import functions
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.elementwise import elementwise, of_elements
from openinfer.ops.examples import example_call
from openinfer.ops.precision import ELEMENTWISE_ULPS, EXACT, OTHER_ULPS, ulps_of
from openinfer.ops.schema import OpSchema, Primitive
from openinfer.plugins.environment import Environment

ENVIRONMENT = Environment.default()

DEFINED = {
    *("add", "sub", "mul", "div", "fma", "rem", "neg", "absolute", "minimum", "maximum", "select"),
    *("floor", "ceil", "trunc", "round_even"),
}
"""Functions of floats whose every bit is defined by IEEE 754, by the operands or by one of them."""

OPERANDS = (tree.literal(1.0, F32),) * 3


def of_floats(name: str) -> Expr | None:
    """Return a function of `openinfer.expr.tree` applied to floats, where that is a float again; else None."""
    for count in (1, 2, 3):
        for operands in (OPERANDS[:count], (tree.literal(True, tree.BOOL), *OPERANDS[: count - 1])):
            try:
                made = functions()[name](*operands)
            except (TypeError, tree.ExprError):
                continue
            return made if made.dtype is F32 else None
    return None


def unary(build: Any, category: str) -> OpSchema:
    return elementwise("plugged", "x", FLOATS, of_elements(build), summary="a function", category=category)


def ulps(schema: OpSchema) -> float:
    return ulps_of(schema, call_of(schema, [TensorType(F32, (3,))], {}))


@pytest.mark.parametrize("name", sorted(name for name in functions() if of_floats(name) is not None))
def test_a_function_is_exact_only_if_its_bits_are_defined(name: str) -> None:
    schema = unary(lambda x: tree.add(x, of_floats(name)), "arithmetic")

    assert (ulps(schema) == 0) == (name in DEFINED)


@pytest.mark.parametrize("category", sorted(EXACT))
def test_a_category_makes_no_function_of_a_library_exact(category: str) -> None:
    assert ulps(unary(tree.exp, category)) == ELEMENTWISE_ULPS


def test_what_kernels_alone_compute_is_exact_only_if_it_says_so() -> None:
    schema = replace(unary(tree.neg, "arithmetic"), definition=Primitive())

    assert ulps(schema) == OTHER_ULPS
    assert ulps(replace(schema, tolerance=0.0)) == 0


@pytest.mark.parametrize("op", [name for name, schema in ENVIRONMENT.ops.items() if schema.category in EXACT])
def test_operators_of_exact_categories_are_exact(op: str) -> None:
    schema = ENVIRONMENT.op(op)
    for example in schema.examples:
        for dtype in FLOATS & (example.dtypes or schema.dtypes):
            call = example_call(schema, example, ENVIRONMENT.dtypes[dtype], ENVIRONMENT.dtypes)
            assert math.isclose(ulps_of(schema, call), 0.0), (op, dtype)


def test_what_is_moved_by_a_place_that_is_known_at_run_time_is_exact() -> None:
    rows, row = TensorType(F32, (3, 4)), TensorType(F32, (4,))
    call = OpCall(op="select", inputs=(rows,), outputs=(row,), settings={"axis": 0})

    assert ulps_of(ENVIRONMENT.op("select"), call) == 0
