"""Recurrent layers and control flow of ONNX as loops and branches of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import agrees, info, model, node, saved, weights

from openinfer.importers import load
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
    agrees(proto, imported, {"x": rand(5, 2, 3)})


def test_a_single_step_needs_no_loop(tmp_path: Path) -> None:
    initial = weights(w=rand(1, 16, 3), r=rand(1, 16, 4))
    inputs = [info("x", [1, 2, 3]), info("h", [1, 2, 4]), info("c", [1, 2, 4])]
    nodes = [node("LSTM", "x w r - - h c", "y hn cn", hidden_size=4)]
    proto = model(nodes, inputs, [info(name, None) for name in ("y", "hn", "cn")], initial)
    imported = load(saved(proto, tmp_path))
    assert "loop" not in imported.text
    agrees(proto, imported, {"x": rand(1, 2, 3), "h": rand(1, 2, 4), "c": rand(1, 2, 4)})


def test_the_length_of_a_sequence_may_be_a_size(tmp_path: Path) -> None:
    initial = weights(w=rand(1, 12, 3), r=rand(1, 12, 4))
    proto = model([node("GRU", "x w r", "y", hidden_size=4)], [info("x", ["T", 1, 3])], [info("y", None)], initial)
    imported = load(saved(proto, tmp_path))
    for length in (2, 7):
        agrees(proto, imported, {"x": rand(length, 1, 3)})
