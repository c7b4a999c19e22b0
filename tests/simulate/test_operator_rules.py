"""Settings, modes and types of operators as they run, rule by rule (``specification: runtime.operators``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.ops.schema import Elementwise
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator


def executor(text: str, arrays: dict[str, Any] | None = None, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(arrays or {}, **model), graph(text)).make_executor()


def refused(declarations: str, statement: str) -> str:
    """Return the code with which a statement is refused before it runs."""
    with pytest.raises(oi.ValidationError) as caught:
        executor(f"{declarations} block entry {{ {statement}; return; }}")
    return caught.value.code


@pytest.mark.rule("language.settings.5", "runtime.operators.1")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f32", 1.5),
        ("f16", 1.5),
        ("bf16", 1.5),
        ("f8", 1.5),
        ("f64", 1.5),
        ("i8", -2),
        ("i64", -(2**40)),
        ("u8", 200),
        ("bitset", 3),
        ("i4", -8),
        ("bool", True),
    ],
)
def test_a_variable_as_a_setting_is_its_value_when_the_operator_runs(dtype: str, value: float) -> None:
    ex = executor(
        f"dynamic {{ s: {dtype}; }} volatile {{ y: f64[2]; }} block entry {{ op fill(y, value=s) >> y; return; }}"
    )
    for given in (value, type(value)(0)):
        ex.step(s=given)
        assert ex.fetch("y").tolist() == [given, given]


@pytest.mark.rule("runtime.operators.1")
@pytest.mark.parametrize("kind", ["t1", "t2", "f32[2]"])
def test_ternary_and_several_elements_are_not_settings(kind: str) -> None:
    assert refused(f"dynamic {{ s: {kind}; }} volatile {{ y: f64[2]; }}", "op fill(y, value=s) >> y") == "setting-type"


@pytest.mark.rule("runtime.operators.1")
def test_one_element_of_any_rank_is_a_setting() -> None:
    ex = executor("dynamic { s: f32[1, 1]; } volatile { y: f32[2]; } block entry { op fill(y, value=s) >> y; return; }")
    ex.step(s=[[4.0]])
    assert ex.fetch("y").tolist() == [4.0, 4.0]


ROUND = "dynamic { mode: f32; x: f32; } volatile { y: f32; } block entry { op round(x, mode=mode) >> y; return; }"


@pytest.mark.rule("language.settings.5", "runtime.links.10", "runtime.operators.2")
@pytest.mark.parametrize(("mode", "rounded"), [("half_even", 2.0), ("half_away", 3.0)])
def test_a_string_of_the_metadata_comes_before_a_variable_of_its_name(mode: str, rounded: float) -> None:
    ex = executor(ROUND, metadata={"mode": mode})
    ex.step(x=2.5)
    assert ex.fetch("y") == rounded


@pytest.mark.rule("runtime.operators.2")
def test_a_string_of_the_metadata_is_checked_like_one_of_the_program() -> None:
    with pytest.raises(oi.ValidationError, match="one of half_away, half_even") as caught:
        executor(ROUND, metadata={"mode": "sideways"})
    assert caught.value.code == "setting-type"


@pytest.mark.rule("runtime.operators.3")
@pytest.mark.parametrize(
    "statement", ["op add(x, x) >> x", "op sub(x, y) >> x", "op sub(y, x) >> x", "op matmul(m, m) >> m"]
)
def test_all_inputs_are_read_before_the_output_is_written(statement: str) -> None:
    ex = executor("dynamic { x: f32[2]; y: f32[2]; m: f32[2, 2]; }" + f"block entry {{ {statement}; return; }}")
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    m = np.array([[1, 2], [3, 4]], np.float32)
    ex.step(x=x, y=y, m=m)
    expected = {"op add(x, x) >> x": x + x, "op sub(x, y) >> x": x - y, "op sub(y, x) >> x": y - x}.get(
        statement, m @ m
    )
    assert ex.fetch("m" if "matmul" in statement else "x").tolist() == expected.tolist()


@pytest.mark.rule("runtime.operators.6")
def test_an_operator_in_place_keeps_the_shape() -> None:
    assert refused("volatile { x: f32[1]; y: f32[4]; }", "op add(x, y) >> x") == "shape-mismatch"


@pytest.mark.rule("runtime.operators.6")
def test_an_operator_that_cannot_work_in_place_is_refused() -> None:
    assert refused("volatile { x: f32[2, 2]; }", "op sum_axis(x, axes=[0]) >> x") == "inplace-denied"


@pytest.mark.rule("runtime.operators.6")
def test_in_place_needs_no_switch() -> None:
    program = graph("volatile { x: f32 @init(2.0); } block entry { op mul(x, x) >> x; return; }")
    simulator = Simulator(oi.Model.from_arrays({}), program)
    assert simulator.with_inplace() is simulator
    ex = simulator.make_executor()
    ex.step()
    assert ex.fetch("x") == 4.0


@pytest.mark.rule("runtime.operators.7")
def test_a_write_never_shows_through_a_copy() -> None:
    ex = executor("""
        dynamic { x: f32[2]; } volatile { a: f32[2]; b: f32[2]; c: f32[2]; }
        block entry { transfer x >> a; transfer a >> b; op add(a, a) >> a; transfer b >> c; op mul(b, b) >> b; return; }
    """)
    ex.step(x=[1, 2])
    assert [ex.fetch(name).tolist() for name in "xabc"] == [[1, 2], [2, 4], [1, 4], [1, 2]]


@pytest.mark.rule("runtime.operators.8")
@pytest.mark.parametrize(
    ("left", "right", "out"), [("3", "2, 3", "2, 3"), ("2, 1", "1, 3", "2, 3"), ("", "2, 3", "2, 3"), ("0", "1", "0")]
)
def test_broadcasting_aligns_trailing_axes(left: str, right: str, out: str) -> None:
    def shaped(dims: str) -> np.ndarray:
        shape = tuple(map(int, dims.split(","))) if dims else ()
        return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)

    ex = executor(
        f"dynamic {{ a: f32[{left}]; b: f32[{right}]; }} volatile {{ y: f32[{out}]; }}".replace("f32[]", "f32")
        + "block entry { op sub(a, b) >> y; return; }"
    )
    ex.step(a=shaped(left), b=shaped(right))
    np.testing.assert_array_equal(ex.fetch("y"), shaped(left) - shaped(right))


@pytest.mark.rule("runtime.operators.8")
def test_matmul_broadcasts_leading_axes() -> None:
    ex = executor(
        "dynamic { a: f32[2, 1, 2, 3]; b: f32[4, 3, 2]; } volatile { y: f32[2, 4, 2, 2]; }"
        "block entry { op matmul(a, b) >> y; return; }"
    )
    a, b = (np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in ((2, 1, 2, 3), (4, 3, 2)))
    ex.step(a=a, b=b)
    np.testing.assert_array_equal(ex.fetch("y"), a @ b)


@pytest.mark.rule("operators.shapes.3", "runtime.operators.8")
def test_an_output_is_never_broadcast() -> None:
    assert refused("volatile { a: f32[4]; y: f32[2, 4]; }", "op add(a, a) >> y") == "shape-mismatch"


@pytest.mark.rule("operators.shapes.2", "runtime.operators.9")
def test_every_elementwise_operator_of_several_inputs_broadcasts() -> None:
    several = [
        schema
        for schema in Environment.default().ops.values()
        if isinstance(schema.definition, Elementwise) and len(schema.inputs) > 1
    ]
    assert len(several) > 20
    assert [schema.name for schema in several if not schema.broadcast] == []


@pytest.mark.rule("runtime.operators.9")
@pytest.mark.parametrize("shape", ["[3, 4]", "[2, 4]"])
def test_shapes_that_do_not_broadcast_are_refused(shape: str) -> None:
    assert refused(f"volatile {{ a: f32[4, 3]; b: f32{shape}; }}", "op add(a, b) >> a") == "shape-mismatch"


@pytest.mark.rule("dtypes.conversion.1", "operators.types.1", "runtime.operators.10")
def test_types_are_not_mixed() -> None:
    assert refused("volatile { a: f32; b: f64; }", "op add(a, b) >> a") == "dtype-unsupported"


@pytest.mark.rule("dtypes.accumulators.3", "runtime.operators.11")
@pytest.mark.parametrize(
    ("dtype", "acc", "out", "code"),
    [
        ("i8", "i32", "i32", ""),
        ("u8", "u16", "u16", ""),
        ("i32", "i8", "i8", "acc-rules"),
        ("i8", "u32", "u32", "acc-rules"),
        ("i8", "i8", "i8", "acc-rules"),
        ("i8", "i32", "i64", "output-dtype"),
    ],
)
def test_an_accumulator_is_wider_and_of_the_same_sign(dtype: str, acc: str, out: str, code: str) -> None:
    declared, statement = f"volatile {{ x: {dtype}[4]; y: {out}[4]; }}", f"op add(x, x, acc={acc}) >> y"
    if code:
        assert refused(declared, statement) == code
        return
    ex = executor(f"dynamic {{ z: {dtype}[4]; }} {declared} block entry {{ transfer z >> x; {statement}; return; }}")
    ex.step(z=[100, 120, 1, 0])
    assert ex.fetch("y").tolist() == [200, 240, 2, 0]


@pytest.mark.rule("runtime.operators.11")
def test_with_an_accumulator_the_output_is_not_an_input() -> None:
    assert refused("volatile { x: i32[4]; }", "op add(x, x, acc=i64) >> x") == "inplace-denied"


@pytest.mark.rule("operators.shapes.5", "runtime.operators.12")
@pytest.mark.parametrize("statement", ["op add(a, a) >> a", "op matmul(a, b) >> c", "transfer a >> a"])
def test_tensors_without_elements_are_legal(statement: str) -> None:
    ex = executor(
        f"volatile {{ a: f32[2, 0]; b: f32[0, 3]; c: f32[2, 3] @init(5.0); }} block entry {{ {statement}; return; }}"
    )
    ex.step()
    assert ex.fetch("a").shape == (2, 0)
    assert ex.fetch("c").tolist() == [[0.0 if "matmul" in statement else 5.0] * 3] * 2


def test_a_setting_that_is_wrong_when_the_program_runs_is_marked() -> None:
    text = (
        "dynamic { x: f32[3]; n: i32; } volatile { y: f32[3]; }\nblock entry { op softmax(x, axis=n) >> y; return y; }"
    )
    running = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text)).make_executor()
    with pytest.raises(oi.ExecutionError, match="axis 5 is out of range") as caught:
        running.step(x=[1.0, 2.0, 3.0], n=5)
    span = caught.value.diagnostics[0].span
    assert (text[span.start : span.end], span.line) == ("n", 2)
