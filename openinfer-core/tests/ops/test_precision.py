"""Which operators count as exact: what their definitions show, never what nobody said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from openinfer.compute import Builder, ComputationError
from openinfer.compute.stage import Order
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.expr.tree import Expr
from openinfer.expr.verify import functions
from openinfer.ir.resolved import RuntimeInts, RuntimeScalar
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.dtype_sets import FLOATS
from openinfer.ops.elementwise import elementwise, of_elements
from openinfer.ops.examples import example_call
from openinfer.ops.precision import ELEMENTWISE_ULPS, EXACT, OTHER_ULPS, ulps_of
from openinfer.ops.schema import Compute, DefineStages, OpSchema, Primitive
from openinfer.plugins.environment import Environment
from openinfer.symbolic import Const, Name

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


def staged(name: str, define: DefineStages) -> OpSchema:
    """Return an operator that says that it moves what it computes."""
    return replace(ENVIRONMENT.op(name), definition=Compute(define))


STAGED = sorted(
    name
    for name, schema in ENVIRONMENT.ops.items()
    if schema.category in EXACT and isinstance(schema.definition, Compute)
)


@pytest.mark.parametrize("op", STAGED)
def test_operators_of_exact_categories_are_exact_at_any_sizes(op: str) -> None:
    schema = ENVIRONMENT.op(op)
    dtype = ENVIRONMENT.dtypes[max(FLOATS & (schema.examples[0].dtypes or schema.dtypes))]
    for example in schema.examples:
        call = example_call(schema, example, dtype, ENVIRONMENT.dtypes)
        # What a step decides is declared at its largest: types that the rule of the operator yields nowhere.
        stale = replace(call, outputs=tuple(replace(y, shape=tuple(n + 1 for n in y.shape)) for y in call.outputs))

        assert ulps_of(schema, stale) == 0, example.settings


@pytest.mark.parametrize(
    ("op", "shapes", "settings", "late"),
    [
        ("select", [(3, 4), (4,)], {"axis": 0}, {"index": RuntimeScalar("n")}),
        (
            "slice",
            [(3, 4), (3, 4)],
            {"axes": (0,), "steps": (1,)},
            {
                "starts": RuntimeInts((Name("n"),), is_list=True),
                "ends": RuntimeInts((Const(3),), is_list=True),
            },
        ),
    ],
)
def test_what_is_moved_by_places_that_are_known_at_run_time_is_exact(
    op: str, shapes: list[tuple[int, ...]], settings: dict[str, Any], late: dict[str, Any]
) -> None:
    source, made = (TensorType(F32, shape) for shape in shapes)
    schema = ENVIRONMENT.op(op)
    call = OpCall(op=op, inputs=(source,), outputs=(made,), settings=settings)

    assert ulps_of(schema, call, late) == 0


def test_a_number_that_is_known_at_run_time_proves_nothing() -> None:
    row = TensorType(F32, (4,))
    schema = ENVIRONMENT.op("pad")
    late = {"value": RuntimeScalar("v")}
    call = call_of(schema, [row], {"pads": (1, 1)})
    known = {name: value for name, value in call.settings.items() if name not in late}

    assert ulps_of(schema, replace(call, settings=known), late) == OTHER_ULPS
    add = OpCall(op="add", inputs=(row, row), outputs=(row,), settings={})
    assert ulps_of(ENVIRONMENT.op("add"), add, {"acc": RuntimeScalar("v")}) == ELEMENTWISE_ULPS


def _exp(k: Builder, call: OpCall) -> None:
    at = k.axes(*k.outputs[0].shape)
    k.outputs[0][at] = k.apply(tree.exp, k.given[0][at])


def _exp_where_long(k: Builder, call: OpCall) -> None:
    at = k.axes(*k.outputs[0].shape)
    element = k.given[0][at]
    k.outputs[0][at] = k.apply(tree.exp, element) if call.outputs[0].shape[0] > 1000 else element


def _wrong(k: Builder, call: OpCall) -> None:
    raise ComputationError("is written wrongly")


def _of_number(k: Builder, call: OpCall) -> None:
    at = k.axes(*k.outputs[0].shape)
    # A loop asks for the number of an extent, also of the largest that is declared.
    for _ in range(call.outputs[0].shape[0]):
        k.outputs[0][at] = k.given[0][at]


def _summed(order: Order) -> DefineStages:
    def define(k: Builder, call: OpCall) -> None:
        row = k.axis(k.outputs[0].shape[0])
        column = k.axis(k.outputs[0].shape[0])
        k.outputs[0][row] = k.sum(k.given[0][column], (column,), order)

    return define


@pytest.mark.parametrize("declared", [3, 4])
@pytest.mark.parametrize("define", [_exp, _wrong, _summed(Order.ANY)])
def test_what_is_not_proved_is_not_exact(define: DefineStages, declared: int) -> None:
    call = OpCall(op="identity", inputs=(TensorType(F32, (3,)),), outputs=(TensorType(F32, (declared,)),), settings={})

    assert ulps_of(staged("identity", define), call) == OTHER_ULPS


def test_a_way_that_other_sizes_take_counts_where_the_sizes_are_not_known() -> None:
    schema = staged("identity", _exp_where_long)
    known = call_of(schema, [TensorType(F32, (3,))], {})
    stale = replace(known, outputs=(TensorType(F32, (4,)),))

    assert ulps_of(schema, known) == 0
    assert ulps_of(schema, stale) == OTHER_ULPS


def test_a_definition_that_needs_a_number_is_run_at_the_stated_one() -> None:
    schema = staged("identity", _of_number)
    call = OpCall(op="identity", inputs=(TensorType(F32, (3,)),), outputs=(TensorType(F32, (4,)),), settings={})

    assert ulps_of(schema, call) == 0
    assert ulps_of(schema, call.substituted({}), {"unknown": RuntimeScalar("v")}) == OTHER_ULPS


def test_sums_are_exact_where_their_order_is_stated() -> None:
    call = call_of(ENVIRONMENT.op("identity"), [TensorType(F32, (3,))], {})

    assert ulps_of(staged("identity", _summed(Order.SEQUENTIAL)), call) == 0
    assert ulps_of(staged("identity", _summed(Order.ANY)), call) == OTHER_ULPS
