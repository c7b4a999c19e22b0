"""Data movement in programs: any number of inputs and outputs, sizes in settings, run-time places, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ExecutionError, ValidationError
from openinfer.model import Model
from openinfer.serialize import GraphDeserialize, GraphSerialize
from openinfer.simulate import Executor, Simulator

THREE = """
dynamic { a: f32[2, 3]; b: f32[N, 3]; c: f32[1, 3]; }
volatile { y: f32[N+3, 3]; p: f32[2, 3]; q: f32[N, 3]; r: f32[1, 3]; first: f32[2, 3]; }
block entry {
    op concat(a, b, c, axis=0) >> y;
    op split(y, sizes=[2, N, 1]) >> p, q, r;
    op split(y, sizes=[2, N, 1]) >> first;
    return y, p, q, r, first;
}
"""


def stepped(text: str, sizes: dict[str, int] | None = None, **inputs: Any) -> Executor:
    executor = Simulator(Model.from_arrays({}, sizevars=sizes or {}), graph(text), trace=True).make_executor()
    executor.step(**inputs)
    return executor


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def test_inputs_are_joined_and_parted_again() -> None:
    a, b, c = numbers(2, 3), numbers(4, 3) + 10, numbers(1, 3) + 50

    executor = stepped(THREE, {"N": 4}, a=a, b=b, c=c)

    assert np.array_equal(executor.fetch("y"), np.concatenate([a, b, c]))
    for name, part in {"p": a, "q": b, "r": c, "first": a}.items():
        assert np.array_equal(executor.fetch(name), part)


@pytest.mark.rule("language.operators.5")
def test_the_trace_names_every_input_and_output() -> None:
    executor = stepped(THREE, {"N": 1}, a=numbers(2, 3), b=numbers(1, 3), c=numbers(1, 3))

    said = [event.node_desc for event in executor.trace()]

    assert said[:2] == ["op concat(a,b,c) >> y", "op split(y) >> p, q, r"]


def test_any_number_of_inputs_and_outputs_goes_through_text_and_json() -> None:
    program = graph(THREE)

    assert graph(program.to_dsl()) == program
    assert GraphDeserialize.from_json(GraphSerialize.json(program)) == program


def test_more_outputs_than_parts_are_refused() -> None:
    text = """
    dynamic { x: f32[4]; } volatile { a: f32[2]; b: f32[2]; c: f32[2]; }
    block entry { op split(x, parts=2) >> a, b, c; }
    """

    with pytest.raises(ValidationError, match=r"2 parts.*3 outputs"):
        stepped(text, x=numbers(4))


def test_as_many_parts_as_outputs_is_the_default() -> None:
    executor = stepped(
        "dynamic { x: f32[5]; } volatile { a: f32[3]; b: f32[2]; } block entry { op split(x) >> a, b; }", x=numbers(5)
    )

    assert executor.fetch("b").tolist() == [3.0, 4.0]


def test_numbers_come_from_no_inputs_and_the_declared_type() -> None:
    executor = stepped(
        "volatile { a: i16[N]; b: f16[3]; c: u8[2, N]; d: f64[N*2]; }"
        " block entry { op range(limit=N) >> a; op range(start=1.5, step=-0.5) >> b; op iota(axis=1) >> c;"
        " op arange(start=1, limit=N*2+1) >> d; }",
        {"N": 4},
    )

    assert executor.fetch("a").tolist() == [0, 1, 2, 3]
    assert executor.fetch("b").tolist() == [1.5, 1.0, 0.5]
    assert executor.fetch("c").tolist() == [[0, 1, 2, 3]] * 2
    assert executor.fetch("d").tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_range_of_another_length_than_declared_is_refused() -> None:
    with pytest.raises(ValidationError) as error:
        stepped("volatile { a: i16[5]; } block entry { op range(limit=4) >> a; }")

    assert error.value.code == "shape-mismatch"


def test_places_may_be_loop_indices() -> None:
    text = """
    dynamic { x: f32[4, 3]; } volatile { row: f32[3]; y: f32[3] @init(0.0); }
    block entry { loop rows (i in 0..4) { op select(x, axis=0, index=i) >> row; op add(y, row) >> y; } }
    """
    x = numbers(4, 3)

    assert np.array_equal(stepped(text, x=x).fetch("y"), x.sum(axis=0))


def test_a_place_out_of_range_names_the_statement_that_was_running() -> None:
    text = """
    dynamic { x: f32[2, 3]; } volatile { row: f32[3]; }
    block entry { loop rows (i in 0..4) { op select(x, axis=0, index=i) >> row; } }
    """

    with pytest.raises(ExecutionError, match="index 2 is out of range for dim 0 of f32"):
        stepped(text, x=numbers(2, 3))


@pytest.mark.rule("operators.indices.2")
def test_an_index_out_of_range_names_the_statement_that_was_running() -> None:
    text = (
        "dynamic { ids: i32[2]; w: f32[3, 2]; } volatile { y: f32[2, 2]; } block entry { op embedding(ids, w) >> y; }"
    )

    with pytest.raises(ExecutionError) as error:
        stepped(text, ids=np.array([1, 3], np.int32), w=numbers(3, 2))

    assert error.value.code == "out-of-range"
    assert error.value.node_desc is not None
    assert "op embedding(ids: i32[2], w: f32[3,2]) >> y" in str(error.value)


def test_results_may_go_where_inputs_were() -> None:
    text = """
    dynamic { x: f32[3]; i: i64[3]; u: f32[3]; } volatile { y: f32[3]; }
    block entry { transfer x >> y; op flip(y, axes=0) >> y; op scatter(y, i, u, reduction="add") >> y; }
    """
    executor = stepped(text, x=numbers(3), i=np.array([0, 0, 2]), u=np.ones(3, np.float32))

    assert executor.fetch("y").tolist() == [4.0, 1.0, 1.0]


REFUSED = {
    "squeeze(x, axes=0)": "only a dim of 1",
    "expand(x, shape=[5, 4])": "do not broadcast",
    "slice(x, starts=[0], ends=[1, 2])": "as many ends",
    "slice(x, starts=[0], ends=[1], steps=[0])": "steps",
    "narrow(x, axis=1, start=2, length=3)": "do not lie in dim 1",
    "select(x, axis=1, index=4)": "out of range",
    "concat(x, w, axis=0)": "only dim 0 may differ",
    "stack(x, w)": "one shape",
    "pad(x, pads=[1, 1])": "expected 4",
    "pad(x, pads=[-4, 0, 0, 0])": "cut off more",
    "tile(x, repeats=[2])": "one number",
    "repeat(x, axis=2, count=2)": "axis 2",
    'einsum(x, w, equation="ij,jk->ik")': "'j' is 4 and 3",
    'einsum(x, equation="i->i")': "2 dims",
    'einsum(x, equation="ij->k")': "no input has",
    "gather_elements(x, w)": "takes no f32",
    "scatter_nd(x, i, w)": "expected the shape",
    "resize2d(x, scale=2.0)": r"\[N,C,H,W\]",
    "depth_to_space(x, block=2)": r"\[N,C,H,W\]",
    "triu(i)": r"\[..., R, C\]",
    "conv1d(x, w)": r"\[N,C,L\]",
    "max_pool1d(x, kernel=2)": r"\[N,C,L\]",
}


@pytest.mark.parametrize("call", REFUSED)
def test_a_broken_rule_names_operator_types_and_rule(call: str) -> None:
    declared = "dynamic { x: f32[3, 4]; w: f32[3, 3]; i: i64[2]; } volatile { y: f32[1]; }"
    text = f"{declared} block entry {{ op {call} >> y; }}"

    with pytest.raises(ValidationError, match=REFUSED[call]) as error:
        stepped(text)

    assert call.split("(")[0] in str(error.value)
