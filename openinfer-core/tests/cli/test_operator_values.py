"""Calls of operators with numbers: results are those of the definition, and nearly every operator has such a call."""

from __future__ import annotations

import pytest

from openinfer.builtin import openinfer_ops
from openinfer.cli.operator_text import in_full, page
from openinfer.cli.operator_values import MOST_ELEMENTS, value_example
from openinfer.ops.schema import Operand, OpExample
from openinfer.plugins.environment import Environment
from openinfer.plugins.loader import load_environment

WITHOUT = {"cast"}
"""Operators without examples."""


@pytest.fixture(scope="module")
def environment() -> Environment:
    return load_environment(allow=("core",))


def lines(environment: Environment, name: str, *examples: OpExample) -> tuple[str, ...]:
    schema = environment.op(name)
    return value_example(environment, schema, examples or schema.examples)


def test_operands_the_call_and_its_results_are_shown(environment: Environment) -> None:
    example = OpExample(inputs=(Operand(shape=(2, 3)),) * 2)

    assert lines(environment, "add", example) == (
        "a = [[-1, -0.5, 0], [0.5, 1, 1.5]]",
        "b = [[4, 3, 2], [1, 0, -1]]",
        "op add(a, b) >> y;",
        "y = [[3, 2.5, 2], [1.5, 1, 0.5]]",
    )


def test_settings_that_are_not_the_default_are_in_the_call(environment: Environment) -> None:
    example = OpExample(inputs=(Operand(shape=(2, 3)),), settings={"axes": (1,)})

    assert lines(environment, "sum_axis", example)[1:] == ("op sum_axis(x, axes=[1]) >> y;", "y = [-1.5, 3]")


def test_loop_programs_are_carried_out(environment: Environment) -> None:
    example = OpExample(inputs=(Operand(shape=(5,)),), settings={"k": 2})

    assert lines(environment, "topk", example) == (
        "x = [-1, -0.5, 0, 0.5, 1]",
        "op topk(x, k=2) >> values, indices;",
        "values = [1, 0.5]",
        "indices = [4, 3]",
    )


def test_operands_that_may_be_repeated_have_numbers_and_optional_ones_their_name(environment: Environment) -> None:
    parts = OpExample(inputs=(Operand(shape=(2,)),) * 2, settings={"axis": 0})
    assert [line.partition(" = ")[0] for line in lines(environment, "concat", parts)] == [
        "x0",
        "x1",
        "op concat(x0, x1, axis=0) >> y;",
        "y",
    ]
    assert "op linear(x, w, bias=bias) >> y;" in lines(environment, "linear")


def test_numbers_without_a_finite_result_are_not_shown(environment: Environment) -> None:
    (x, _, y) = lines(environment, "log", OpExample(inputs=(Operand(shape=(2,)),)))

    assert (x, y) == ("x = [0.5, 1]", "y = [-0.6931, 0]")


def test_scales_are_positive(environment: Environment) -> None:
    example = OpExample(inputs=(Operand(shape=(2, 3)), Operand(shape=(3,))))

    assert "scale = [2.5, 1.5, 0.5]" in lines(environment, "quantize_linear", example)


def test_a_call_that_is_too_long_or_empty_is_not_shown(environment: Environment) -> None:
    long = OpExample(inputs=(Operand(shape=(MOST_ELEMENTS[-1] + 1,)),) * 2)
    empty = OpExample(inputs=(Operand(shape=(0, 3)),) * 2)

    assert lines(environment, "add", long, empty) == ()


def test_every_operator_but_few_has_a_call_with_numbers_on_its_page(environment: Environment) -> None:
    names = {schema.name for schema in openinfer_ops()}
    shown = {name for name in names if "One call with numbers:" in page(environment, environment.op(name))}

    assert names - shown == WITHOUT


def test_the_terminal_shows_it_too(environment: Environment) -> None:
    assert "numbers  op add(a, b) >> y;" in in_full(environment, environment.op("add"))
