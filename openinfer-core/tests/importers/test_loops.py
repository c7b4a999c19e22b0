"""Recurrent layers and control flow of ONNX as loops and branches of a program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_models import agrees, info, model, node, saved, weights

from openinfer import Model, ModelImportError, Simulator, graph
from openinfer.importers import load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(11)


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_a_recurrent_layer_is_a_loop_over_its_cell(op: str, direction: str, tmp_path: Path) -> None:
    many, hidden = (2 if direction == "bidirectional" else 1), 4
    rows = GATES[op] * hidden
    initial = weights(w=rand(many, rows, 3), r=rand(many, rows, hidden), b=rand(many, 2 * rows))
    attributes = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attributes["linear_before_reset"] = 1
    outputs = "y h c" if op == "LSTM" else "y h"
    proto = model(
        [node(op, "x w r b", outputs, **attributes)],
        [info("x", [5, "batch", 3])],
        [info(name, None) for name in outputs.split()],
        initial,
    )
    imported = load(saved(proto, tmp_path))
    assert imported.text.count("loop time") == many
    written = re.findall(r"op scatter_nd\((steps\w*), (\w+), h\w*\) >> \1;", imported.text)
    assert [place.rstrip("_0123456789") for _, place in written] == {
        "forward": ["t"],
        "reverse": ["range"],
        "bidirectional": ["t", "range"],
    }[direction]
    agrees(proto, imported, {"x": rand(5, 2, 3)})


@settings(deadline=None, max_examples=20)
@given(rows=st.integers(1, 5), row=st.lists(st.integers(1, 3), max_size=2), start=st.integers(0, 4))
def test_a_row_that_is_written_by_its_number_is_that_of_a_list_of_one_place(
    rows: int, row: list[int], start: int
) -> None:
    """One statement, and the three that cut a place out of a list."""
    shape = ", ".join(map(str, (rows, *row)))
    text = f"""
    dynamic {{ x: i32[{shape}]; }}
    constant {{ zero: i32 @init(0); }}
    block entry {{
      op expand(zero, shape=[{shape}]) >> whole;
      op expand(zero, shape=[{shape}]) >> apart;
      assign numbers: i64[{rows}];
      op range(limit={rows}) >> numbers;
      op unsqueeze(numbers, axes=[1]) >> places;
      loop time (t in {min(start, rows)}..{rows}) {{
        op select(x, axis=0, index=t) >> value;
        op scatter_nd(whole, t, value) >> whole;
        op narrow(places, axis=0, start=t, length=1) >> place;
        op unsqueeze(value, axes=[0]) >> values;
        op scatter_nd(apart, place, values) >> apart;
      }}
      return whole, apart;
    }}
    """
    x = RNG.integers(1, 99, (rows, *row), np.int32)
    with Simulator(Model.from_arrays({}), graph(text)).make_executor() as executor:
        executor.step(x=x)
        found = executor.outputs()
    x[:start] = 0
    assert found["whole"].tolist() == found["apart"].tolist() == x.tolist()


def test_a_single_step_needs_no_loop(tmp_path: Path) -> None:
    initial = weights(w=rand(1, 16, 3), r=rand(1, 16, 4))
    inputs = [info("x", [1, 2, 3]), info("h", [1, 2, 4]), info("c", [1, 2, 4])]
    nodes = [node("LSTM", "x w r - - h c", "y hn cn", hidden_size=4)]
    proto = model(nodes, inputs, [info(name, None) for name in ("y", "hn", "cn")], initial)
    imported = load(saved(proto, tmp_path), feeds={})
    assert "loop" not in imported.text
    agrees(proto, imported, {"x": rand(1, 2, 3), "h": rand(1, 2, 4), "c": rand(1, 2, 4)})


def test_the_length_of_a_sequence_may_be_a_size(tmp_path: Path) -> None:
    initial = weights(w=rand(1, 12, 3), r=rand(1, 12, 4))
    proto = model([node("GRU", "x w r", "y", hidden_size=4)], [info("x", ["T", 1, 3])], [info("y", None)], initial)
    imported = load(saved(proto, tmp_path))
    for length in (2, 7):
        agrees(proto, imported, {"x": rand(length, 1, 3)})


def counting() -> Any:
    """Return a model that adds its input to a state."""
    nodes = [node("Add", "x state", "stateN"), node("Neg", "stateN", "y")]
    return model(nodes, [info("x", [2]), info("state", [2])], [info("y", None), info("stateN", None)])


@pytest.mark.parametrize("feeds", [None, {"stateN": "state"}])
def test_a_state_is_kept_from_step_to_step(feeds: dict[str, str] | None, tmp_path: Path) -> None:
    path = saved(counting(), tmp_path)
    imported = load(path, feeds=feeds)
    assert "persistent {\n  state: f32[2];\n}" in imported.text
    executor = Simulator(imported.model, imported.graph).make_executor()
    for step in range(1, 4):
        executor.insert(x=np.array([1, 2], np.float32))
        executor.step()
        assert executor.fetch("y").tolist() == [-step, -2 * step]
    assert verify(path, imported, steps=3).agrees


def test_without_feeds_a_state_is_an_input_and_an_output(tmp_path: Path) -> None:
    imported = load(saved(counting(), tmp_path), feeds={})
    assert set(imported.report.inputs) == {"x", "state"}
    agrees(counting(), imported, {"x": rand(2), "state": rand(2)})


def test_an_input_is_fed_by_one_output(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match="the outputs 'y', 'stateN' are all fed to 'state': expected one"):
        load(saved(counting(), tmp_path), feeds={"y": "state", "stateN": "state"})


def test_a_result_with_a_name_like_the_only_input_is_not_a_state(tmp_path: Path) -> None:
    proto = model([node("Relu", "image", "image_out")], [info("image", [3])], [info("image_out", None)], ())
    imported = load(saved(proto, tmp_path))
    assert set(imported.report.inputs) == {"image"}
    agrees(proto, imported, {"image": rand(3)})


def test_what_cannot_be_fed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match="cannot feed 'z' to 'state'; there are: outputs y, stateN"):
        load(saved(counting(), tmp_path), feeds={"z": "state"})


def test_a_branch_whose_condition_is_known_is_written_without_the_other(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    branches = {
        name: helper.make_graph([node(op, "x", "z")], name, [], [info("z", None)])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    proto = model([node("If", "c", "y", **branches)], [info("x", [3]), condition], [info("y", None)])
    path = saved(proto, tmp_path)
    for value, op in ((True, "neg"), (False, "abs")):
        assert f"op {op}(x) >> y;" in load(path, values={"c": value}).text
