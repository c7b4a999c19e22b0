"""`openinfer import` ends with the size of the program and what became of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from openinfer.cli.program import main
from openinfer.plugins.environment import Environment

onnx: Any = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

pytestmark = pytest.mark.skipif("c" not in Environment.default().targets, reason="plans are made for target c")

LAYERS, WIDTH = 4, 16


def perceptron(folder: Path, width: int = WIDTH) -> Path:
    """Write layers with a bias each, between which the exporter wrote out a SiLU."""
    make, array = onnx.helper.make_node, onnx.numpy_helper.from_array
    generator = np.random.default_rng(1)
    nodes: list[Any] = []
    weights: list[Any] = []
    value = "x"
    for layer in range(LAYERS):
        for name, shape in (("weight", (width, width)), ("bias", (width,))):
            weights.append(array(generator.standard_normal(shape).astype(np.float32), f"layers.{layer}.{name}"))
        nodes += [
            make("MatMul", [value, f"layers.{layer}.weight"], [f"p{layer}"]),
            make("Add", [f"p{layer}", f"layers.{layer}.bias"], [f"s{layer}"]),
            make("Sigmoid", [f"s{layer}"], [f"g{layer}"]),
            make("Mul", [f"s{layer}", f"g{layer}"], [f"m{layer}"]),
            make("Tanh", [f"m{layer}"], [f"y{layer}"]),
        ]
        value = f"y{layer}"
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["N", width]) for name in ("x", value))
    graph = onnx.helper.make_graph(nodes, "net", [x], [y], weights)
    path = folder / "net.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), str(path))
    return path


def imported(path: Path, *options: str) -> str:
    done = CliRunner().invoke(main, ["import", str(path), "-o", str(path.parent), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("n", [1, 5])
def test_the_numbers_are_those_of_the_model(n: int, tmp_path: Path) -> None:
    parameters = LAYERS * (WIDTH * WIDTH + WIDTH)
    shown = imported(perceptron(tmp_path), *(["--limit", "N=5"] if n == 5 else []))
    rows = [line.split("  ", 1) for line in shown.splitlines()[1:]]
    table = {label: text.strip() for label, text in rows}

    assert table["parameters"] == f"{parameters:,} in 8 tensors, {4 * parameters:,} bytes"
    assert table["multiply-accumulates"] == f"{n * LAYERS * WIDTH * WIDTH:,} at N={n}"
    assert table["arena"].endswith(f" bytes at N={n}")
    assert table["rolled"] == f"{LAYERS} layers into a loop"
    assert table["recognised"] == f"{LAYERS} linear, {LAYERS} silu"


def test_the_document_has_the_numbers_too(tmp_path: Path) -> None:
    path = perceptron(tmp_path)
    document = json.loads(imported(path, "--json", "--no-roll", "--set", "N=2"))

    assert document["recognised"] == {"linear": LAYERS, "silu": LAYERS}
    assert (document["layers"], document["norms"]) == (0, 0)
    summary = document["summary"]
    assert summary["parameters"] == LAYERS * (WIDTH * WIDTH + WIDTH)
    assert summary["estimate"]["macs"] == 2 * LAYERS * WIDTH * WIDTH
    assert summary["estimate"]["sizes"] == {}
    planned = CliRunner().invoke(main, ["plan", str(path), "--json", "--no-roll", "--set", "N=2"])
    assert summary["estimate"]["arena_nbytes"] == json.loads(planned.stdout)["totals"]["arena_nbytes"]


def test_a_device_without_room_for_the_weights_is_named(tmp_path: Path) -> None:
    shown = imported(perceptron(tmp_path, width=300))
    assert "room on cortex-m55" in shown
    too_large = next(line for line in shown.splitlines() if line.startswith("too large for"))
    assert {"cortex-m4", "cortex-m7"} <= set(too_large.replace(",", "").split())
