"""Conditions of breakpoints and watches: the grammar, and what is said of texts that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.errors import ExecutionError
from openinfer.inspect.conditions import Access, Expression, Function, Infix, Number, Prefix, accesses, parse


def written(expression: Expression) -> str:
    """The expression with parentheses around every part, so that its shape shows."""
    match expression:
        case Number(value):
            return str(value)
        case Access():
            return str(expression)
        case Function(name, argument):
            return f"{name}({written(argument)})"
        case Prefix(sign, operand):
            return f"({sign} {written(operand)})"
        case Infix(sign, left, right):
            return f"({written(left)} {sign} {written(right)})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", "x"),
        ("K[l, 0..t+1]", "K[l, 0..t+1]"),
        ("K[]", "K[]"),
        ("x [3]", "x[3]"),
        ("max(abs(x)) > 10", "(max(abs(x)) > 10)"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a / b / c", "((a / b) / c)"),
        ("-a * b", "((- a) * b)"),
        ("a or b and not c == d", "(a or (b and (not (c == d))))"),
        ("(a or b) and c", "((a or b) and c)"),
        ("not not a", "(not (not a))"),
        ("1.5e-3 <= .5", "(0.0015 <= 0.5)"),
        ("x >= -inf", "(x >= (- inf))"),
        ("true != false", "(True != False)"),
        ("min", "min"),
        ("min + max[0]", "(min + max[0])"),
        ("andy", "andy"),
    ],
)
def test_expressions_bind_as_the_page_says(text: str, expected: str) -> None:
    assert written(parse(text)) == expected


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("", "expected a variable or a number, found the end"),
        ("x >", "found the end"),
        ("x > > y", "found '>'"),
        ("(x", "expected ')', found the end"),
        ("x)", "expected the end or an operator, found ')'"),
        ("x y", "found 'y'"),
        ("mx(x)", "unknown function 'mx': did you mean `max`"),
        ("quantile(x)", "functions are abs"),
        ("x; y", "unexpected character ';'"),
        ("x[1", "unexpected character '['"),
        ("1 < x < 2", "found '<'"),
        ("x = 1", "unexpected character '='"),
        ("and", "found 'and'"),
        ("x and[1]", "found 'and'"),
        ("-" * 300 + "x", "more than 200 parts"),
        ("(" * 150 + "x", "nested more than 40 deep"),
        ("abs(" * 45 + "x", "nested more than 40 deep"),
        ("__import__('os')", "unexpected character"),
    ],
)
def test_an_error_names_the_part_of_a_text_that_is_not_an_expression(text: str, reported: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        parse(text)
    assert caught.value.code == "bad-condition"
    assert reported in str(caught.value)


def test_names_are_those_in_the_text() -> None:
    assert [str(access) for access in accesses(parse("max(a[1]) > b + c[l, 2] * a"))] == ["a[1]", "b", "c[l, 2]", "a"]


names = st.sampled_from(["x", "K[l, 0]", "step", "W[1]"]).map(lambda text: parse(text))
expressions: st.SearchStrategy[Expression] = st.recursive(
    names | st.integers(0, 10**6).map(Number),
    lambda inner: (
        st.builds(Function, st.sampled_from(["abs", "max", "any"]), inner)
        | st.builds(Prefix, st.sampled_from(["-", "not"]), inner)
        | st.builds(Infix, st.sampled_from(["+", "-", "*", "/", "<", "==", "and", "or"]), inner, inner)
    ),
    max_leaves=12,
)


@given(expressions)
def test_an_expression_in_parentheses_is_read_as_it_was(expression: Expression) -> None:
    assert parse(written(expression)) == expression


@given(st.text(alphabet="xK[]()0.9 <>=!+-*/andortmx_eEinf,", max_size=40))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        parse(text)
    except ExecutionError as error:
        code = error.code
    else:
        return
    assert code == "bad-condition"
