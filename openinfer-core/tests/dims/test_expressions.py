"""Expressions of the language as indices: the same values, and none where the language has none."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from openinfer import symbolic
from openinfer.affine import Index, Interval, Quotient, Remainder, Var
from openinfer.codegen import integer_text
from openinfer.dims import (
    Signed,
    evaluated,
    every_symbol,
    expression,
    expression_interval,
    index_of_expression,
    substituted,
    with_values,
)
from openinfer.plan.operands import Register, Symbol
from openinfer.symbolic import BinOp, Const, DivisionError, Name

NAMES = ("a", "b")
SYMBOLS = {name: Symbol(name, operand=Register(number)) for number, name in enumerate(NAMES)}

leaves = st.one_of(st.integers(0, 5).map(Const), st.sampled_from(NAMES).map(Name))
operators = st.sampled_from(["+", "-", "*", "/", "%", "floor", "ceil"])
expressions = st.recursive(leaves, lambda parts: st.builds(BinOp, operators, parts, parts), max_leaves=12)
numbers = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(-6, 40)))


def value_of(expr, values):
    """Return the value of an expression by the definition of the language, or None."""
    try:
        return symbolic.evaluate(expr, values.__getitem__)
    except DivisionError:
        return None


def value_at(index, values):
    try:
        return evaluated(index, values)
    except DivisionError:
        return None


@given(expressions, numbers)
@settings(max_examples=100, deadline=None)
def test_an_index_has_the_value_of_its_expression_or_none(expr, values):
    index = index_of_expression(expr, lambda name: Index.of(SYMBOLS[name]))

    assert value_at(index, values) == value_of(expr, values)
    other = substituted(index, {SYMBOLS["a"]: Index.of(Symbol("c", operand=Register(2)))})
    assert value_at(other, {"b": values["b"], "c": values["a"]}) == value_of(expr, values)


@given(expressions, numbers)
@settings(max_examples=100, deadline=None)
def test_the_interval_of_an_expression_has_its_values(expr, values):
    bounds = {name: Interval(value - 1, value + 2) for name, value in values.items()}
    found, value = expression_interval(expr, bounds), value_of(expr, values)

    if value is not None:
        assert found.low is None or found.low <= value
        assert found.high is None or found.high >= value


@given(expressions, numbers)
@settings(max_examples=100, deadline=None)
def test_an_index_is_printed_and_written_with_its_value(expr, values):
    index = index_of_expression(expr, lambda name: Index.of(SYMBOLS[name]))
    written = expression(index, lambda _: False)
    printed = integer_text(index, printed_number, lambda operand: NAMES[operand.number], printed_operation)

    assert value_of(written, values) == value_of(symbolic.parse(printed), values) == value_of(expr, values)


def printed_number(number):
    return str(number) if number >= 0 else f"(0-{-number})"


def printed_operation(left, operator, right):
    return f"{operator}(({left})/({right}))" if operator in symbolic.ROUNDINGS else f"({left}){operator}({right})"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2*a+a-3", "3*a-3"),
        ("b-a", "b-a"),
        ("(a+1)*2-2*a", "2"),
        ("floor(a/2)*2+a%2", "2*floor(a/2)+a%2"),
        ("0*floor(a/b)", "floor(a/b)%1"),
        ("a%b-a%b", "a%b%1"),
        ("ceil(7/2)", "4"),
        ("7/2", "7/2"),
    ],
)
def test_like_terms_are_collected_and_divisions_stay(text, canonical):
    index = index_of_expression(symbolic.parse(text), lambda name: Index.of(SYMBOLS[name]))

    assert symbolic.text(expression(index, lambda _: False)) == canonical


def test_an_error_has_the_division_as_it_is_written():
    index = index_of_expression(symbolic.parse("1+floor((a-b)/2)"), lambda name: Index.of(SYMBOLS[name]))

    with pytest.raises(DivisionError, match=r"^`floor\(\(a - b\)/2\)` divides -1 by 2: only non-negative"):
        evaluated(index, {"a": 2, "b": 3})


def test_products_of_many_sums_have_few_terms():
    product = symbolic.parse("*".join(["(a+b)"] * 40))
    index = index_of_expression(product, lambda name: Index.of(SYMBOLS[name]))

    assert len(index.terms) <= 64
    assert evaluated(index, {"a": 1, "b": 1}) == 2**40


@pytest.mark.parametrize("low", [-7, 0, 3])
@pytest.mark.parametrize("kind", [Quotient, Remainder])
def test_divisions_of_what_may_be_negative_are_those_of_the_language_after_a_shift(low, kind):
    size, place = Signed("T"), Symbol("place", operand=Register(0))
    index = Index.of(kind(Index.of(size) * 2 - 1, Index.of(3))) + 1
    made = with_values(index, {"T": Index.of(place)}, lambda _: 2 * low - 1)

    for at in range(low, 9):
        assert evaluated(made, {"place": at}) == index.evaluate({"T": at})
    assert all(isinstance(var, Var) for atoms, _ in made.terms for var in atoms)
    assert [var for var in every_symbol(made) if isinstance(var, Symbol)] == [place]


def test_a_division_of_what_has_no_least_value_has_no_form():
    with pytest.raises(ValueError, match="`T` is divided, and has no least value"):
        with_values(Index.of(Quotient(Index.of(Signed("T")), Index.of(3))), {"T": Index.of(1)})
