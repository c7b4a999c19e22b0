"""A loop of layers takes no more memory than the layers one after the other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer import importers
from openinfer.importers.planned import planned
from openinfer.plugins.environment import Environment
from openinfer.synth import Synthesizer

onnx: Any = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

RNG = np.random.default_rng(0)


def layered(folder: Path, blocks: list[list[dict[str, Any]]], shape: list[int]) -> Path:
    """Write a model of layers, each a list of convolutions with a ReLU after them."""
    nodes: list[Any] = []
    weights: dict[str, Any] = {}
    last = "x"
    for number, block in enumerate(blocks):
        for place, settings in enumerate(block):
            attributes = dict(settings)
            name = f"conv{place}_{number}"
            weights[f"{name}_w"] = RNG.standard_normal(attributes.pop("w")).astype(np.float32) / 8
            weights[f"{name}_b"] = np.zeros(len(weights[f"{name}_w"]), np.float32)
            inputs = [last, f"{name}_w", f"{name}_b"]
            nodes.append(onnx.helper.make_node("Conv", inputs, [f"{name}_sum"], **attributes))
            nodes.append(onnx.helper.make_node("Relu", [f"{name}_sum"], [name]))
            last = name
    nodes.append(onnx.helper.make_node("GlobalAveragePool", [last], ["y"]))
    ports = [onnx.helper.make_tensor_value_info("x", 1, shape)], [onnx.helper.make_empty_tensor_value_info("y")]
    initial = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "layers", *ports, initial)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), folder / "m.onnx"
    )
    return folder / "m.onnx"


FIRST = {"w": (64, 1, 10, 4), "strides": [2, 2], "pads": [4, 1, 5, 1]}
DEPTHWISE = {"w": (64, 1, 3, 3), "group": 64, "pads": [1, 1, 1, 1]}
POINTWISE = {"w": (64, 64, 1, 1)}
WHOLE = {"w": (64, 64, 3, 3), "pads": [1, 1, 1, 1]}

NETS = {
    "DS-CNN of MLPerf Tiny": [[FIRST], *[[DEPTHWISE, POINTWISE]] * 4],
    "pointwise layers": [[FIRST], *[[POINTWISE, POINTWISE]] * 4],
    "whole convolutions": [[FIRST], *[[WHOLE, POINTWISE]] * 4],
}


@pytest.mark.parametrize("net", NETS)
def test_an_import_takes_no_more_memory_than_without_a_loop(net: str, tmp_path: Path) -> None:
    environment = Environment.default()
    path = layered(tmp_path, NETS[net], [1, 1, 49, 10])

    made, flat = importers.load(path), importers.load(path, roll=False)

    plans = [planned(imported, {}, environment) for imported in (made, flat)]
    arenas = [plan.arena_nbytes + plan.state_nbytes for plan in plans]
    assert arenas[0] <= arenas[1] < 65_000
    assert bool(made.report.layers) != any("layers written out take" in note for note in made.report.notes)


def test_an_import_does_not_depend_on_what_is_installed(tmp_path: Path) -> None:
    path = layered(tmp_path, NETS["DS-CNN of MLPerf Tiny"], [1, 1, 49, 10])

    installed = Environment.default()
    environments = (installed, replace(installed, targets={}, devices={}))

    full, bare = (importers.load(path, environment=environment) for environment in environments)

    assert bare.text == full.text
    assert bare.report == full.report


def test_the_plan_of_an_import_is_that_of_target_c(tmp_path: Path) -> None:
    made = importers.load(layered(tmp_path, NETS["DS-CNN of MLPerf Tiny"], [1, 1, 49, 10]))

    ours, theirs = planned(made, {}, Environment.default()), Synthesizer("c").plan(made.model, made.graph)

    assert (ours.arena_nbytes, ours.state_nbytes) == (theirs.arena_nbytes, theirs.state_nbytes)
