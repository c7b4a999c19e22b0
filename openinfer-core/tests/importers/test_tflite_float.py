"""Layers of reals in TFLite models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert import litert
from tflite_models import holds, imported, model, of, op, run, saved

from openinfer.importers import verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(34)
ONE = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}


def rand(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def network(**weight: Any) -> bytes:
    """Return a convolution, a depthwise one, a sum, a mean, a dense layer and a softmax."""
    shape = [1, 6, 6, 4]
    tensors = [
        of("x", [1, 6, 6, 3], signature=[-1, 6, 6, 3]),
        holds("conv/w", rand(4, 3, 3, 3)),
        holds("conv/b", rand(4)),
        holds("deep/w", rand(1, 3, 3, 4)),
        holds("dense/w", **({"values": rand(5, 4)} | weight)),
        holds("axes", np.array([1, 2], np.int32)),
        *(of(name, shape, signature=[-1, *shape[1:]]) for name in "abc"),
        of("d", [1, 4], signature=[-1, 4]),
        of("e", [1, 5], signature=[-1, 5]),
        of("y", [1, 5], signature=[-1, 5]),
    ]
    operators = [
        op("CONV_2D", "x conv/w conv/b", "a", "Conv2DOptions", FusedActivationFunction=3, **ONE),
        op("DEPTHWISE_CONV_2D", "a deep/w conv/b", "b", "DepthwiseConv2DOptions", DepthMultiplier=1, **ONE),
        op("ADD", "a b", "c", "AddOptions", FusedActivationFunction=1),
        op("MEAN", "c axes", "d", "ReducerOptions", KeepDims=False),
        op("FULLY_CONNECTED", "d dense/w -", "e", "FullyConnectedOptions"),
        op("SOFTMAX", "e", "y", "SoftmaxOptions", Beta=2.0),
    ]
    return model(tensors, operators, "x", "y")


def test_a_network_agrees_with_litert_at_other_sizes(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the original runs by LiteRT, the package ai-edge-litert")
    data = network()
    found = verify(saved(data, tmp_path), imported(data, tmp_path))
    assert found.agrees, found
    assert found.runner == "LiteRT"


def test_a_weight_of_integers_stays_so_and_the_report_says_what_differs(tmp_path: Path) -> None:
    weight = {"values": RNG.integers(-127, 128, (5, 4)).astype(np.int8), "scale": 0.01}
    data = network(**weight)
    program = imported(data, tmp_path)
    assert "dense_weight: i8[4, 5]" in program.text
    assert "hybrid layers: LiteRT rounds their inputs" in str(program.report)
    x = rand(2, 6, 6, 3)
    assert np.abs(run(program, x=x)[0] - litert(saved(data, tmp_path), x=x)[0]).max() < 0.05


def test_values_of_layers_are_named_for_the_first_difference(tmp_path: Path) -> None:
    program = imported(network(), tmp_path)
    assert {"d", "e"} <= set(program.report.values)
    assert program.report.nodes == 6
