"""The conformance kit knows which settings are legal: a schema that refuses one of them fails, or that takes others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from openinfer.builtin import openinfer_ops
from openinfer.dtypes import BY_NAME, I16, I32
from openinfer.ops import accumulate
from openinfer.ops.schema import OpSchema, OpTypeError
from openinfer.plugins.environment import Environment
from openinfer.testing.accumulating import may_accumulate
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import known, known_oracles
from openinfer.testing.places import device_place

ENVIRONMENT = Environment.default()

CPU = device_place("cpu", ENVIRONMENT)


def failures(schema: OpSchema, dtype: str) -> tuple[str, ...]:
    """Return what the kit says about an operator and one element type."""
    narrow = replace(schema, dtypes=frozenset({dtype}))
    return check_operator(narrow, known_oracles()[schema.name], CPU, ENVIRONMENT, every=50)[dtype].failures


def refusing(schema: OpSchema, is_refused: Callable[[Any, Any], bool]) -> OpSchema:
    """Return a schema that also refuses some inputs with their settings."""

    def infer(inputs: Any, settings: Any, declared: Any) -> Any:
        if is_refused(inputs, settings):
            raise OpTypeError("refused for no reason")
        return schema.infer(inputs, settings, declared)

    return replace(schema, infer=infer)


@pytest.mark.parametrize(
    ("op", "dtype", "setting", "value"),
    [
        ("sum_axis", "f16", "keepdims", True),
        ("argmax_axis", "i8", "nan", "propagate"),
        ("cumsum", "f32", "reverse", True),
        ("round", "f32", "mode", "half_even"),
        ("cast", "f32", "rounding_mode", "half_odd"),
        ("cast", "i8", "saturate", False),
        ("gelu", "bf16", "approximate", "tanh"),
        ("pad", "u4", "mode", "wrap"),
        ("scatter", "i4", "reduction", "max"),
        ("resize2d", "f16", "mode", "linear"),
        ("avg_pool2d", "f32", "ceil_mode", True),
        ("mul", "i8", "acc", I32),
        ("sum_axis", "t1", "acc", I32),
        ("matmul", "i8", "acc", (I32, BY_NAME["f16"])),
    ],
)
def test_a_legal_value_of_a_setting_that_a_schema_refuses_fails(op: str, dtype: str, setting: str, value: Any) -> None:
    schema = ENVIRONMENT.op(op)
    assert not failures(schema, dtype)

    (line,) = failures(refusing(schema, lambda _, settings: settings[setting] == value), dtype)

    assert line.startswith(f"{op} does not take ")
    assert f"{setting}={value}" in line
    assert "refused for no reason" in line


@pytest.mark.parametrize(("op", "shape"), [("add", ()), ("exp", ()), ("sum_axis", (1,))])
def test_a_legal_shape_that_a_schema_refuses_fails(op: str, shape: tuple[int, ...]) -> None:
    (line,) = failures(refusing(ENVIRONMENT.op(op), lambda inputs, _: inputs[0].shape == shape), "f32")

    assert line.startswith(f"{op} does not take (f32{list(shape)}")


def test_an_accumulator_that_a_schema_takes_wrongly_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accumulate, "_widens", lambda dtype, wider: wider.is_integer and wider.bits >= dtype.bits)

    (line,) = failures(ENVIRONMENT.op("sum_axis"), "i16")

    assert line.startswith("sum_axis takes (i16[")
    assert line.endswith("which the specification refuses")


def test_operators_that_are_not_known_may_refuse_what_they_want() -> None:
    schema = refusing(ENVIRONMENT.op("gelu"), lambda _, settings: settings["approximate"] == "tanh")
    own = replace(schema, name="own_gelu", dtypes=frozenset({"f32"}))
    environment = replace(ENVIRONMENT, ops={**ENVIRONMENT.ops, "own_gelu": own})
    place = device_place("cpu", environment)

    found = check_operator(own, known_oracles()["gelu"], place, environment, every=50)

    assert found["f32"].ran
    assert not found["f32"].failures


@pytest.mark.rule("dtypes.accumulators.3")
@pytest.mark.parametrize(
    ("dtype", "acc", "legal"),
    [
        ("i16", I32, True),
        ("i16", I16, False),
        ("i16", BY_NAME["u32"], False),
        ("i16", BY_NAME["f32"], False),
        ("u4", BY_NAME["u8"], True),
        ("u2", BY_NAME["u4"], False),
        ("f16", BY_NAME["bf16"], True),
        ("f32", BY_NAME["f16"], False),
        ("f16", (BY_NAME["f32"], BY_NAME["i8"]), True),
        ("i8", (I32, BY_NAME["t2"]), False),
        ("t1", I32, True),
        ("t2", BY_NAME["u32"], False),
        ("bool", BY_NAME["u8"], False),
        ("bitset", I16, False),
        ("bool", None, True),
    ],
)
def test_accumulators_are_those_of_the_specification(dtype: str, acc: Any, *, legal: bool) -> None:
    assert may_accumulate(BY_NAME[dtype], {"acc": acc}) is legal


def test_what_is_known_to_be_refused_is_of_known_operators() -> None:
    assert set(known("ILLEGAL")) <= {schema.name for schema in openinfer_ops()}
