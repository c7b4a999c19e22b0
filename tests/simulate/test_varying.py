"""Variables that take other shapes while a step runs, compared with NumPy: the old value is read, a new one written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.simulate import Simulator

Array = np.ndarray[Any, Any]
CHANGES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "grow": ("op concat(y, x, axis=0) >> y;", lambda y, x: np.concatenate([y, x])),
    "grow in front": ("op concat(x, y, axis=0) >> y;", lambda y, x: np.concatenate([x, y])),
    "double": ("op concat(y, y, axis=0) >> y;", lambda y, _: np.concatenate([y, y])),
    "turn": ("op transpose(y) >> y;", lambda y, _: y.T),
    "square": ("op matmul(y, y, trans_b=true) >> y;", lambda y, _: y @ y.T),
    "flip": ("op flip(y, axes=[0]) >> y;", lambda y, _: y[::-1]),
    "add": ("op add(y, y) >> y;", lambda y, _: y + y),
    "first": ("op slice(y, starts=[0], ends=[1], axes=[0]) >> y;", lambda y, _: y[:1]),
    "aside": ("op identity(y) >> z; op add(z, z) >> z;", lambda y, _: y),
    "store": ("cache.write x >> K[1]; cache.reset K[1];", lambda y, _: y),
}
TEXT = """
dynamic { x: f32[1, 3]; }
volatile { y: f32[1, 3]; z: f32[1, 3]; row: f32[3]; }
persistent { t: i64; K(i): f32[1, 3] @table; M(i): f32[3] @table; }
block entry {
  assign n: i64;
  cache.read t >> n;
  op reshape(x, shape=[3]) >> row;
  cache.write row >> M[n];
  cache.read M[0..n+1] >> z;
  cache.read M[0..n+1] >> y;
  CHANGES
  cache.increment t;
  return y;
}
"""
KEEP_ROWS = sorted(CHANGES.keys() - {"turn", "square"})
ORDERS = st.tuples(
    st.lists(st.sampled_from(KEEP_ROWS), max_size=6),
    st.lists(st.sampled_from(["turn", "square", "add", "flip", "double", "first", "store"]), max_size=3),
).map(lambda parts: [*parts[0], *parts[1]])


@settings(max_examples=40, deadline=None)
@given(order=ORDERS)
@example(order=["grow in front"] * 5)
def test_any_chain_of_operators_on_one_variable(order: list[str]) -> None:
    program = oi.graph(TEXT.replace("CHANGES", " ".join(CHANGES[each][0] for each in order)))
    executor = Simulator(oi.Model.from_arrays({}), program).make_executor()
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    for step in range(4):
        x = rows[step : step + 1]
        executor.step(x=x)
        expected = rows[: step + 1]
        for each in order:
            expected = CHANGES[each][1](expected, x)
        np.testing.assert_allclose(executor.fetch("y"), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["at", "t2", "i32"])
def test_a_list_of_integers_takes_a_variable_that_is_called_like_an_element_type(name: str) -> None:
    text = f"""
        dynamic {{ x: f32[4]; {name}: i64; }} volatile {{ y: f32[3]; }}
        block entry {{ op slice(x, starts=[{name}], ends=[4], axes=[0]) >> y; return y; }}
    """
    graph = oi.graph(text)
    for program in (graph, oi.Graph.from_json(graph.to_json())):
        with Simulator(oi.Model.from_arrays({}), program).make_executor() as executor:
            executor.step(x=np.arange(4, dtype=np.float32), **{name: 1})
            assert executor.fetch("y").tolist() == [1, 2, 3]


@pytest.mark.rule("language.temporaries.1")
@pytest.mark.parametrize("device", ["cpu", "c"])
def test_a_transfer_gives_a_temporary_the_shape_of_the_moment(device: str) -> None:
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    text = """
    dynamic { x: f32[2]; }
    persistent { n: i32; K(t): f32[2] @table; }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> rows;
      transfer rows >> copy;
      return copy;
    }
    """
    simulator = oi.Simulator(oi.Model.from_arrays({}), text, device=device, limits={"t": 8})
    with simulator.make_executor() as executor:
        for count in (1, 2, 3):
            executor.step(x=np.full(2, count, np.float32))
            assert executor.outputs()["copy"].tolist() == [[number] * 2 for number in range(1, count + 1)]
