"""What inputs are drawn from follows from what a program does with them."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.plugins.environment import Environment
from openinfer.random_inputs import Specials, ValueRange, drawn, drawn_text, input_ranges
from openinfer.simulate import Simulator
from openinfer.validate import resolve

TABLES = {
    "t2": np.zeros((2, 4), np.float32),
    "t30": np.zeros((30, 4), np.float32),
    "shift": np.array([3], np.int64),
    "grid": np.zeros((5, 7), np.float32),
}


def ranges_of(declared: str, statements: str) -> dict[str, ValueRange]:
    """Return the ranges of the dynamic variables of a program over tables of 2 and 30 rows."""
    graph = oi.graph(
        f"dynamic {{ {declared} }} volatile {{ t2: f32[2, 4]; t30: f32[30, 4]; shift: i64[1]; grid: f32[5, 7]; }}"
        f"persistent {{ last: i64[3] @init(0); }} block entry {{ {statements} }}"
    )
    program = resolve(graph, oi.Model.from_arrays(TABLES))
    names = [name for name, variable in program.variables.items() if variable.storage.value == "dynamic"]
    return input_ranges(program, oi.Model.from_arrays(TABLES), names, Environment.default())


def text_of(declared: str, statements: str) -> str:
    """Return what is drawn for the first input."""
    name = declared.partition(":")[0]
    dtype = oi.graph(f"dynamic {{ {declared} }} block entry {{ return {name}; }}").vars[name].dtype
    return drawn_text(dtype, ranges_of(declared, statements)[name])


@pytest.mark.parametrize(
    ("declared", "statements", "expected"),
    [
        ("x: u8[4];", "op cast(x, to=f32) >> y; return y;", "u8 0..255"),
        ("x: i8[4];", "op abs(x) >> y; return y;", "i8 -128..127"),
        ("x: u16[4];", "op cast(x, to=f32) >> y; return y;", "u16 0..65535, one in four 0 or 1"),
        ("x: i64[4];", "op cast(x, to=f32) >> y; return y;", "i64 -1048576..1048576, one in four 0 or 1"),
        ("x: f32[4];", "op exp(x) >> y; return y;", "f32 -1..1"),
        ("x: bool[4];", "op not(x) >> y; return y;", "bool 0..1"),
        ("x: i64[3];", "op embedding(x, t2) >> y; return y;", "i64 0..1, indices below 2"),
        ("x: i64[3];", "op gather(t30, x) >> y; return y;", "i64 0..29, indices below 30"),
        ("x: u8[3];", "op gather(t30, x) >> y; return y;", "u8 0..29, indices below 30"),
        ("x: f32[3];", "op cast(x, to=i64) >> i; op gather(t30, i) >> y; return y;", "f32 0..29, indices below 30"),
        (
            "x: i64[3];",
            "op cast(x, to=i32) >> i; op gather(t30, i, axis=1) >> y; return y;",
            "i64 0..3, indices below 4",
        ),
        (
            "x: i64[2,3];",
            "op reshape(x, shape=[6]) >> i; op gather(t2, i) >> y; return y;",
            "i64 0..1, indices below 2",
        ),
        ("x: i64[3];", "op add(x, shift) >> i; op embedding(i, t30) >> y; return y;", "i64 0..26, indices below 27"),
        ("x: i64[3];", "op sub(x, shift) >> i; op embedding(i, t30) >> y; return y;", "i64 3..32, indices below 33"),
        ("x: i64[3];", "op sub(x, shift) >> i; op gather(t30, i) >> y; return y;", "i64 0..32, indices below 33"),
        ("x: i64[3];", "op mul(x, shift) >> i; op embedding(i, t30) >> y; return y;", "i64 0..9, indices below 10"),
        (
            "x: i64[3];",
            "op concat(x, shift, axis=0) >> i; op embedding(i, t30) >> y; return y;",
            "i64 0..29, indices below 30",
        ),
        (
            "x: i64[3];",
            "op embedding(x, t30) >> y; op embedding(x, t2) >> z; return y, z;",
            "i64 0..1, indices below 2",
        ),
        ("x: i64[3,2];", "op gather_nd(grid, x) >> y; return y;", "i64 0..4, indices below 5"),
        (
            "x: i64[3];",
            "cache.write x >> last; cache.read last >> l; op embedding(l, t2) >> y; return y;",
            "i64 0..1, indices below 2",
        ),
        ("x: i64[3];", "assign y: f32[3, 9]; op one_hot(x, depth=9) >> y; return y;", "i64 0..8, indices below 9"),
        ("x: i32;", "op fill(t2, value=0.0) >> y; loop l (i in 0..x) { op add(y, t2) >> y; } return y;", None),
    ],
)
def test_the_range_of_an_input(declared: str, statements: str, expected: str | None) -> None:
    assert text_of(declared, statements) == (expected or "i32 0..7, sizes, places or counts")


def test_several_inputs_share_what_an_index_may_be() -> None:
    ranges = ranges_of("x: i64[3]; y: i64[3];", "op add(x, y) >> i; op embedding(i, t30) >> z; return z;")
    assert sum(int(span.bounds.high) for span in ranges.values()) == 28


def test_an_index_that_no_bounds_are_known_of_leaves_its_inputs_as_they_are() -> None:
    ranges = ranges_of("x: i64[3];", "op cumsum(x, axis=0) >> i; op embedding(i, t30) >> y; return y;")
    assert ranges["x"].is_wide


def test_positions_stay_small_where_they_become_angles() -> None:
    declared = "q: f32[1, 1, 5, 8]; p: i64[5];"
    assert ranges_of(declared, "op rope(q, p) >> y; return y;")["p"].bounds.high == 127
    multiplied = "op cast(p, to=f32) >> f; op mul(f, f) >> g; op sin(g) >> y; return y;"
    assert ranges_of("p: i64[5];", multiplied)["p"].bounds.high == 127


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("op exp(x) >> y; op add(y, x) >> z; return z;", Specials.ALL),
        ("op transpose(x, perm=[1, 0]) >> y; return y;", Specials.ALL),
        ("op matmul(x, t2) >> y; return y;", Specials.FINITE),
        ("op softmax(x, axis=-1) >> y; return y;", Specials.FINITE),
        ("op cast(x, to=u8) >> y; return y;", Specials.NONE),
        ("op cast(x, to=i32) >> i; op gather(t2, i) >> y; return y;", Specials.NONE),
    ],
)
def test_special_floats_are_those_that_mean_something(statements: str, expected: Specials) -> None:
    assert ranges_of("x: f32[3, 2];", statements)["x"].specials is expected


def test_indices_that_are_drawn_run() -> None:
    pytest.importorskip("openinfer_backend_cpu", reason="the program runs on the device cpu")
    statements = "op add(x, shift) >> i; op embedding(i, t30) >> y; return y;"
    graph = oi.graph(
        f"dynamic {{ x: i64[500]; }} volatile {{ t30: f32[30, 4]; shift: i64[1]; }} block entry {{ {statements} }}"
    )
    model = oi.Model.from_arrays({name: TABLES[name] for name in ("t30", "shift")})
    span = input_ranges(resolve(graph, model), model, ["x"], Environment.default())["x"]
    values = drawn(graph.vars["x"].dtype, (500,), span, (0,))
    assert (values.min(), values.max()) == (0, 26)
    Simulator(model, graph).make_executor().step(x=values)
