"""Integer expressions: text there and back, values against Python's own integers, divisions that have none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import openinfer as oi
from openinfer.dims.expressions import simplified
from openinfer.symbolic import (
    MAX_LEVELS,
    MAX_OPERATORS,
    BinOp,
    Const,
    DivisionError,
    IntExpr,
    LevelsError,
    Name,
    SymbolicSyntaxError,
    evaluate,
    parse,
    text,
)

SIZES = {"H": 7, "floor": 3, "N": 12}
LEAVES = st.one_of(st.builds(Const, st.integers(0, 40)), st.builds(Name, st.sampled_from(sorted(SIZES))))
OPERATIONS = st.sampled_from(["+", "-", "*", "/", "%", "floor", "ceil"])
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.builds(BinOp, OPERATIONS, inner, inner), max_leaves=8)

VALUES = {
    "N/4": 3,
    "floor(H/2)": 3,
    "ceil(H/2)": 4,
    "ceil(N/4)": 3,
    "H%4": 3,
    "N/2/3": 2,
    "2*N/8": 3,
    "N/(2*3)": 2,
    "floor*2": 6,
    "floor (H / floor)": 2,
}
WITHOUT_VALUE = {
    "H/2": "`H/2` divides 7 by 2, which leaves 1",
    "N/(H-7)": "divides 12 by 0: nothing is divided by 0",
    "H%0": "divides 7 by 0",
    "floor((1-H)/2)": "divides -6 by 2: only non-negative integers are divided",
    "H/(1-H)": "divides 7 by -6",
}
NO_DIVISION = ["floor(H)", "ceil(H/2+1)", "floor(H%2)"]


def value(expr: IntExpr) -> int:
    """Return what Python makes of an expression, as an independent oracle."""
    if isinstance(expr, Const):
        return expr.value
    if isinstance(expr, Name):
        return SIZES[expr.name]
    left, right = value(expr.left), value(expr.right)
    if expr.op in "+-*":
        return {"+": left + right, "-": left - right, "*": left * right}[expr.op]
    if left < 0 or right <= 0 or (expr.op == "/" and left % right):
        raise DivisionError
    return {"/": left // right, "floor": left // right, "ceil": -(-left // right), "%": left % right}[expr.op]


@pytest.mark.rule("language.dimensions.6")
@given(EXPRESSIONS)
def test_canonical_text_parses_to_an_equal_expression(expr: IntExpr) -> None:
    assert parse(text(expr)) == expr


@pytest.mark.rule("language.dimensions.2", "language.expressions.3")
@given(EXPRESSIONS)
def test_values_are_those_of_exact_integers(expr: IntExpr) -> None:
    try:
        wanted = value(expr)
    except DivisionError:
        with pytest.raises(DivisionError):
            evaluate(expr, SIZES.__getitem__)
        return
    assert evaluate(expr, SIZES.__getitem__) == wanted


@pytest.mark.rule("language.dimensions.3")
@pytest.mark.parametrize(("written", "wanted"), VALUES.items())
def test_division_has_these_values(written: str, wanted: int) -> None:
    assert evaluate(parse(written), SIZES.__getitem__) == wanted


@pytest.mark.rule("language.dimensions.4")
@pytest.mark.parametrize(("written", "message"), WITHOUT_VALUE.items())
def test_a_division_without_a_value_names_its_operands(written: str, message: str) -> None:
    with pytest.raises(DivisionError) as caught:
        evaluate(parse(written), SIZES.__getitem__)
    assert message in str(caught.value)


@pytest.mark.parametrize("written", NO_DIVISION)
def test_only_divisions_are_rounded(written: str) -> None:
    with pytest.raises(SymbolicSyntaxError, match="takes a division such as"):
        parse(written)


@pytest.mark.rule("language.expressions.1")
def test_divisions_are_allowed_in_dimensions_bounds_indices_and_settings() -> None:
    pytest.importorskip("openinfer_backend_cpu", reason="the program runs on the device cpu")
    import numpy as np

    model = oi.Model.from_arrays(
        {f"W.{number}": np.full(4, number, np.float32) for number in range(3)}, sizevars={"H": 8, "n": 5}
    )
    program = """
      dynamic { x: f32[H/2]; }
      volatile { W(l): f32[H/2] @pattern("W.{l}"); y: f32[H/2]; r: f32[floor(n/2), 2]; }
      block entry {
        transfer x >> y;
        loop twice (i in 0..ceil(n/2)) { op add(y, W[floor(i*3/2)%3]) >> y; }
        op reshape(y, shape=[floor(n/2), H/4]) >> r;
        return r;
      }
    """
    executor = oi.Simulator(model, program).make_executor()
    executor.step(x=np.zeros(4, np.float32))
    np.testing.assert_array_equal(executor.fetch("r"), np.full((2, 2), 0 + 1 + 0, np.float32))


@pytest.mark.rule("language.dimensions.4")
def test_a_division_is_checked_when_the_program_runs() -> None:
    pytest.importorskip("openinfer_backend_cpu", reason="the program runs on the device cpu")
    program = """
      dynamic { n: i32; }
      block entry { loop l (i in 0..n/2) { barrier; } return; }
    """
    executor = oi.Simulator(oi.Model.from_arrays({}), program).make_executor()
    executor.step(n=4)
    with pytest.raises(oi.ExecutionError, match="`n/2` divides 5 by 2, which leaves 1") as caught:
        executor.step(n=5)
    assert caught.value.code == "bad-division"


def test_graphs_with_divisions_are_json_of_version_3() -> None:
    graph = oi.graph("volatile { y: f32[H/2]; } block entry { return; }")
    document = graph.to_json()
    assert document["schema_version"] == 3
    assert oi.Graph.from_json(document) == graph


@pytest.mark.rule("language.expressions.4")
def test_expressions_have_so_many_operators_and_levels() -> None:
    longest = "a" + "+1" * MAX_OPERATORS
    assert evaluate(parse(longest), {"a": 2}.__getitem__) == 2 + MAX_OPERATORS
    with pytest.raises(SymbolicSyntaxError, match="over 200 operators"):
        parse(longest + "+1")

    tree: IntExpr = Name("a")
    for _ in range(MAX_LEVELS):
        tree = BinOp("+", Const(1), tree)
    assert evaluate(tree, {"a": 2}.__getitem__) == 2 + MAX_LEVELS
    assert hash(tree) == hash(BinOp("+", Const(1), tree.right))
    with pytest.raises(LevelsError, match="more than 256 levels of operators"):
        BinOp("+", Const(1), tree)


def test_sums_with_more_terms_than_levels_stay_as_they_are_written() -> None:
    left = "+".join(f"a{n}" for n in range(8))
    product = parse("+".join(f"({left})*({'+'.join(f'b{k}_{n}' for n in range(8))})" for k in range(5)))

    assert simplified(product) is product
