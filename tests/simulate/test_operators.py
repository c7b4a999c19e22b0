"""Operators in a running program: aliasing, settings known late, decompositions, kernels per device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator


def executor(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays or {}, **model), graph(text)).make_executor()


@pytest.mark.rule("runtime.operators.3")
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("op sub(y, x) >> x;", [[9.0, 18.0], [27.0, 36.0]]),
        ("op add(x, x) >> x;", [[2.0, 4.0], [6.0, 8.0]]),
        ("op matmul(x, y) >> x;", [[70.0, 100.0], [150.0, 220.0]]),
        ("op matmul(y, x) >> x;", [[70.0, 100.0], [150.0, 220.0]]),
        ("op transpose(x) >> x;", [[1.0, 3.0], [2.0, 4.0]]),
    ],
)
def test_inputs_are_read_completely_before_the_output_is_written(statement: str, expected: list[list[float]]) -> None:
    ex = executor(f"dynamic {{ x: f32[2, 2]; y: f32[2, 2]; }} block entry {{ {statement} return; }}")
    x = np.array([[1, 2], [3, 4]], np.float32)
    ex.step(x=x, y=10 * x)
    assert ex.fetch("x").tolist() == expected


def test_a_decomposed_operator_may_write_its_input() -> None:
    ex = executor("dynamic { x: f32[3]; } block entry { op softmax(x) >> x; return; }")
    ex.step(x=[1.0, 2.0, 3.0])
    powers = np.exp([1.0, 2.0, 3.0])
    assert np.allclose(ex.fetch("x"), powers / powers.sum(), rtol=1e-6)


def test_broadcasting_stretches_inputs_to_the_output() -> None:
    ex = executor(
        "dynamic { a: i32[2, 1]; b: i32[3]; } volatile { y: i32[2, 3]; } block entry { op mul(a, b) >> y; return; }"
    )
    ex.step(a=[[2], [3]], b=[1, 10, 100])
    assert ex.fetch("y").tolist() == [[2, 20, 200], [3, 30, 300]]


def test_a_setting_may_be_a_variable_read_when_the_operator_runs() -> None:
    ex = executor(
        "dynamic { x: f32[2]; low: f32; } volatile { y: f32[2]; } block entry { op clamp(x, min=low) >> y; return; }"
    )
    for low, expected in [(0.0, [0.0, 3.0]), (5.0, [5.0, 5.0]), (-9.0, [-4.0, 3.0])]:
        ex.step(x=[-4.0, 3.0], low=low)
        assert ex.fetch("y").tolist() == expected


@pytest.mark.rule("language.expressions.1", "language.settings.4")
def test_an_integer_setting_may_be_an_expression_of_loop_index_and_size() -> None:
    ex = executor(
        "volatile { y: i64[2]; } persistent { seen: i64[2]; } block entry { assign t: i64[2];"
        " loop a (i in 0..3) { op fill(y, value=i) >> y; cache.read seen >> t; op add(t, y) >> t;"
        " cache.write t >> seen; } return; }",
        sizevars={"B": 2},
    )
    ex.step()
    assert ex.fetch("seen").tolist() == [3, 3]


@pytest.mark.rule("runtime.operators.5")
def test_a_late_setting_with_another_shape_than_declared_is_an_error() -> None:
    ex = executor(
        "dynamic { x: f32[1, 1, 4, 4]; n: i32; } volatile { y: f32[1, 1, 3, 3]; }"
        " block entry { op max_pool2d(x, kernel=n) >> y; return; }"
    )
    x = np.zeros((1, 1, 4, 4), np.float32)
    ex.step(x=x, n=2)
    message = r"op max_pool2d\(x: f32\[1,1,4,4\]\) >> y: .* yields f32\[1,1,2,2\], `y` is declared f32\[1,1,3,3\]"
    with pytest.raises(oi.ShapeError, match=message) as caught:
        ex.step(x=x, n=3)
    assert caught.value.node_desc == "op max_pool2d(x) >> y"


def test_a_late_setting_leaves_the_element_type_of_a_result_to_the_step() -> None:
    ex = executor(
        "dynamic { x: f32[1, 1, 4, 4]; n: i32; } volatile { y: i32[1, 1, 3, 3]; }"
        " block entry { op max_pool2d(x, kernel=n) >> y; return; }"
    )
    message = r"op max_pool2d\(x: f32\[1,1,4,4\]\) >> y: .* yields f32\[1,1,3,3\], `y` is declared i32\[1,1,3,3\]"
    with pytest.raises(oi.DTypeError, match=message) as caught:
        ex.step(x=np.zeros((1, 1, 4, 4), np.float32), n=2)
    assert caught.value.code == "output-dtype"


@pytest.mark.rule("language.operators.3")
def test_a_loop_index_is_an_i64_scalar() -> None:
    ex = executor("volatile { y: i64; } block entry { loop a (i in 3..6) { op add(y, i) >> y; } return; }")
    ex.step()
    assert ex.fetch("y") == 12


@pytest.mark.rule("language.operators.2")
def test_an_optional_input_is_given_by_name() -> None:
    ex = executor(
        'dynamic { x: f32[1, 2]; } volatile { w: f32[2, 2]; b(l): f32[2] @pattern("b{l}"); y: f32[1, 2]; }'
        " block entry { loop a (l in 0..2) { op linear(x, w, bias=b[l]) >> y; } return; }",
        {"w": np.eye(2, dtype=np.float32), "b0": np.zeros(2, np.float32), "b1": np.array([5, 6], np.float32)},
    )
    ex.step(x=[[1.0, 2.0]])
    assert ex.fetch("y").tolist() == [[6.0, 8.0]]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("op add(w[i], w[i]) >> t;", [2.0, 4.0, 2.0, 4.0]),
        ("op add(w[i], w[1]) >> t;", [3.0, 4.0, 3.0, 4.0]),
        ("op add(w[i], w[i + 0]) >> t;", [2.0, 4.0, 2.0, 4.0]),
        ("op add(w[i], w[j]) >> t;", [2.0, 3.0, 3.0, 4.0]),
        ("op add(w[i], w[at]) >> t;", [3.0, 4.0, 3.0, 4.0]),
    ],
)
def test_several_entries_follow_the_indices_that_they_name(statement: str, expected: list[float]) -> None:
    ex = executor(
        'dynamic { at: i32; } volatile { w(l): f32 @pattern("w{l}"); } persistent { K(n): f32 @table; n: i32; }'
        " block entry { assign t: f32; loop a (j in 0..2) { loop b (i in 0..2) { "
        + statement
        + " cache.write t >> K[n]; cache.increment n; } } return; }",
        {"w0": np.float32(1), "w1": np.float32(2)},
    )
    ex.step(at=1)
    assert ex.fetch("K").tolist() == expected


@pytest.mark.rule("runtime.checks.4")
def test_an_alias_runs_as_the_operator_it_names() -> None:
    ex = executor(
        "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op clip(x, clamp_min=0.0) >> y; return; }"
    )
    ex.insert(x=[-1.0, 1.0])
    (event, *_) = (run.event for run in ex.iterate())
    assert (event.op_name, event.node_desc) == ("clamp", "op clip(x) >> y")
    assert ex.fetch("y").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "i8", "i32", "u8", "u64", "i4", "bool"])
def test_one_definition_serves_every_element_type(dtype: str) -> None:
    ex = executor(
        f"dynamic {{ a: {dtype}[2]; b: {dtype}[2]; }} volatile {{ y: {dtype}[2]; }}"
        " block entry { op add(a, b) >> y; return; }"
    )
    one, zero = (True, False) if dtype == "bool" else (1, 0)
    ex.step(a=[one, zero], b=[zero, zero])
    assert [bool(v) for v in ex.fetch("y")] == [True, False]


@pytest.mark.parametrize(
    ("given", "target", "call", "values", "expected"),
    [
        ("bitset", "bitset", "add(x, x)", [200, 1], [144, 2]),
        ("bitset", "u8", "popcount(x)", [200, 1], [3, 1]),
        ("bitset", "bool", "eq(x, x)", [200, 1], [True, True]),
        ("t1", "i8", "cast(x, to=i8)", [-1, 1], [-1, 1]),
        ("t2", "f32", "cast(x, to=f32)", [-1, 0], [-1.0, 0.0]),
        ("i4", "i4", "abs(x)", [-8, -3], [-8, 3]),
        ("i4", "i2", "cast(x, to=i2)", [-8, 1], [-2, 1]),
        ("f32", "u4", "cast(x, to=u4)", [-8.0, 1.5], [0, 1]),
    ],
)
def test_packed_and_odd_types_compute_at_their_width(
    given: str, target: str, call: str, values: list[float], expected: list[float]
) -> None:
    ex = executor(
        f"dynamic {{ x: {given}[2]; }} volatile {{ y: {target}[2]; }} block entry {{ op {call} >> y; return; }}"
    )
    ex.step(x=values)
    assert ex.fetch("y").tolist() == expected


def test_a_step_warns_of_nothing() -> None:
    ex = executor(
        "dynamic { x: f32[2]; } volatile { y: f32[2]; s: f32; } block entry { op div(x, x) >> y; op mul(x, x) >> y;"
        " op sum_axis(y) >> s; op exp(x) >> y; return; }"
    )
    ex.step(x=[0.0, 3e38])
    assert np.isinf(ex.fetch("s"))
    ex.insert(x=[0.0, 3e38])
    assert len(list(ex.iterate())) == 5


@pytest.mark.rule("runtime.errors.5")
def test_a_kernel_that_raises_is_an_execution_error_with_its_node() -> None:
    with pytest.raises(oi.OpenInferError) as caught:
        executor("volatile { x: f32[0]; y: f32; } block entry { op max_axis(x, axes=[0]) >> y; return; }").step()
    assert "max_axis" in str(caught.value)
