"""The conformance kit says the element types of results itself: a schema that gives another one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from openinfer.builtin import openinfer_ops
from openinfer.dtypes import BOOL, I8, I32, I64, U8, DType
from openinfer.ir.types import TensorType
from openinfer.ops.schema import OpSchema
from openinfer.plugins.environment import Environment
from openinfer.testing.checks import Cell, check_operator
from openinfer.testing.oracle import known, known_oracles
from openinfer.testing.places import device_place

ENVIRONMENT = Environment.default()

Types = tuple[TensorType, ...]

OF_INPUTS = {"sum_axis", "where", "reshape", "embedding", "one_hot"}
"""Operators of these tests whose result has the type that the cell is of."""


def yielding(schema: OpSchema, change: Callable[[Types], Types]) -> OpSchema:
    """Return a schema whose rule for results is changed."""

    def infer(inputs: Any, settings: Any, declared: Any) -> Types:
        return change(schema.infer(inputs, settings, declared))

    return replace(schema, infer=infer)


def checked(schema: OpSchema, *, every: int = 8) -> Mapping[str, Cell]:
    """Return what the kit says where a schema replaces the operator of its name."""
    environment = replace(ENVIRONMENT, ops={**ENVIRONMENT.ops, schema.name: schema})
    place = device_place("cpu", environment)
    return check_operator(schema, known_oracles()[schema.name], place, environment, every=every)


@pytest.mark.rule("operators.types.2")
@pytest.mark.parametrize(
    ("op", "wrong"),
    [
        ("argmax_axis", I32),
        ("argsort", I32),
        ("eq", U8),
        ("is_nan", U8),
        ("is_finite", U8),
        ("sign", I32),
        ("popcount", I8),
        ("cast", I8),
        ("one_hot", I64),
        ("quantize_linear", U8),
        ("matmul_integer", I64),
        ("sum_axis", I64),
        ("where", BOOL),
        ("embedding", I64),
        ("reshape", U8),
    ],
)
def test_another_type_of_the_result_fails(op: str, wrong: DType) -> None:
    found = checked(yielding(ENVIRONMENT.op(op), lambda made: tuple(replace(one, dtype=wrong) for one in made)))

    right = {wrong.name} if op in OF_INPUTS else set[str]()
    assert {name for name, cell in found.items() if not cell.failures} <= right
    assert all("results are" in line for cell in found.values() for line in cell.failures)


def test_the_places_that_topk_finds_have_a_type_of_their_own() -> None:
    found = checked(yielding(ENVIRONMENT.op("topk"), lambda made: (made[0], replace(made[1], dtype=I32))))

    assert found["f32"].failures[0].endswith(": results are f32, i32, expected f32, i64")


@pytest.mark.parametrize("op", ["range", "iota", "reshape", "expand"])
def test_a_result_that_is_not_what_the_program_declares_fails(op: str) -> None:
    def longer(made: Types) -> Types:
        return tuple(replace(one, shape=(*one.shape, 2)) for one in made)

    found = checked(yielding(ENVIRONMENT.op(op), longer), every=1)

    assert "declared as" in "".join(found["f32"].failures)


def test_the_last_type_of_acc_is_that_of_the_result() -> None:
    schema = ENVIRONMENT.op("mul")

    def infer(inputs: Any, settings: Any, declared: Any) -> Types:
        (made,) = schema.infer(inputs, settings, declared)
        acc = settings["acc"]
        return (replace(made, dtype=acc[0]) if isinstance(acc, tuple) else made,)

    lines = checked(replace(schema, infer=infer))["i8"].failures

    assert lines
    assert all("acc=(" in line and ", expected " in line for line in lines)


def test_operators_that_are_not_known_have_the_types_of_their_schema() -> None:
    exp = ENVIRONMENT.op("exp")
    own = replace(yielding(exp, lambda made: made), name="own_exp")
    environment = replace(ENVIRONMENT, ops={**ENVIRONMENT.ops, "own_exp": own})
    place = device_place("cpu", environment)

    found = check_operator(own, known_oracles()["exp"], place, environment, every=8)

    assert not any(cell.failures for cell in found.values())


def test_rules_for_types_are_of_known_operators() -> None:
    assert set(known("RESULT_TYPES")) <= {schema.name for schema in openinfer_ops()}
