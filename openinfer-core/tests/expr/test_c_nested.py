"""Expressions as C text: values that are used once are written where they are used, others have names."""

from __future__ import annotations

import pytest

from openinfer.dtypes import BOOL, F32, I8, I32, U8, U32
from openinfer.expr import tree
from openinfer.expr.c_nested import is_primary, nested
from openinfer.expr.linear import linearise

A, B, C = (tree.Input(number, I32) for number in range(3))
X, Y = (tree.Input(number, F32) for number in range(2))
CONDITION = tree.Input(0, BOOL)


def written(expr, *inputs):
    fragment = nested(linearise(expr), dict(enumerate(inputs)), "v")
    return [*fragment.statements, fragment.result]


def test_elements_and_results_that_are_used_once_are_arguments():
    expr = tree.dot2(A, tree.widen(B, tree.literal(1, I32)), C)

    assert written(expr, "p[4 * i]", "x1[i]", "total0") == ["oi_dot2_i32(p[4 * i], oi_widen_i32(x1[i], 1), total0)"]


def test_what_is_used_twice_has_a_name_unless_it_is_one():
    product = tree.mul(A, B)

    assert written(tree.add(product, product), "x0[i]", "n") == [
        "const int32_t v2 = oi_mul_i32(x0[i], n);",
        "oi_add_i32(v2, v2)",
    ]
    assert written(tree.mul(A, A), "x0[i]") == ["const int32_t v0 = x0[i];", "oi_mul_i32(v0, v0)"]
    assert written(tree.mul(A, A), "total0") == ["oi_mul_i32(total0, total0)"]


def test_operands_of_operators_are_in_parentheses():
    a, b = tree.Input(0, U32), tree.Input(1, U32)

    assert written(tree.mul(tree.add(a, b), b), "a", "b") == ["(a + b) * b"]
    assert written(tree.select(CONDITION, B, C), "c < 0", "x[0]", "ok ? y[0] : 7") == [
        "(c < 0) ? x[0] : (ok ? y[0] : 7)"
    ]


def test_arithmetic_on_floats_is_rounded_by_a_declaration_or_a_parameter():
    """C may compute with more digits, and contract a product and a sum of one expression to one rounding."""
    product = tree.mul(X, Y)

    assert written(tree.add(product, X), "x", "y") == ["const float v2 = x * y;", "v2 + x"]
    assert written(tree.to_bits(product), "x", "y") == ["oi_to_bits_f32(x * y)"]
    assert written(tree.cast(product, BOOL), "x", "y") == ["const float v2 = x * y;", "v2 != 0x0p+0f"]
    assert written(tree.mul(tree.cast(B, F32), X), "x", "total0") == ["((float)total0) * x"]


def test_a_right_operand_that_loses_its_sign_has_a_name():
    """GCC 12 warns of a change of sign there: conversion to ``uint32_t`` from ``unsigned int``."""
    short = tree.cast(tree.Input(1, I8), U32)
    word = tree.Input(0, U32)

    assert written(tree.sub(word, short), "w", "x[i]") == ["const uint32_t v2 = (uint32_t)x[i];", "w - v2"]
    assert written(tree.sub(short, word), "w", "x[i]") == ["((uint32_t)x[i]) - w"]


def test_inverted_bits_of_short_integers_and_truth_values_have_names():
    """GCC 12 warns of a comparison of the first with an integer without sign, and of the second everywhere."""
    short = tree.bit_not(tree.Input(0, U8))
    truth = tree.cast(tree.cast(tree.Input(0, BOOL), U8), U32)

    assert written(tree.lt(short, tree.Input(1, U8)), "x", "z")[0].startswith("const uint8_t v1 = ")
    assert written(tree.bit_not(truth), "b")[0].startswith("const uint32_t v2 = ")


@pytest.mark.parametrize("order", [tree.lt, tree.le, tree.gt, tree.ge])
def test_computed_integers_without_sign_that_are_ordered_have_names(order):
    """GCC 12 sees that x - x is 0, and warns that no integer without sign is below."""
    byte, limit = tree.Input(0, U8), tree.Input(1, U8)

    for computed in (tree.sub(byte, byte), tree.cast(tree.sub(byte, byte), U32)):
        ordered = order(computed, tree.cast(limit, computed.dtype))
        assert written(ordered, "x", "y")[-1].startswith("v")
    assert written(order(tree.cast(byte, U32), tree.cast(limit, U32)), "x[i]", "y")[0].startswith("((uint32_t)x[i])")


def test_an_operand_that_a_function_writes_twice_has_a_name():
    both = tree.maximum(tree.mul(A, B), C)

    assert written(both, "a", "b", "c")[0] == "const int32_t v2 = oi_mul_i32(a, b);"


def test_long_operands_have_names():
    text = "n_within0 >= 0 ? x0[10 * n_within0 + 1] : 83"
    word = tree.word(*(tree.Input(number, I8) for number in range(4)))

    found = written(word, *(text.replace("+ 1", f"+ {number}") for number in range(4)))

    assert len(found) > 1
    assert max(map(len, found)) <= 120


@pytest.mark.parametrize(
    "text", ["a", "83", "0x1.7fffp+23f", "x0[i + 1]", "f(a)(b)", "oi_shl_i32(x[1], (2))", "(a + b)"]
)
def test_primary_expressions(text):
    assert is_primary(text) == (text != "f(a)(b)")


@pytest.mark.parametrize("text", ["-1", "a + b", "(a) + (b)", "(float)x", "x[0] ? 1 : 2", "*p"])
def test_other_expressions(text):
    assert not is_primary(text)
