"""Attributes that contradict the tensors of their node are errors that name both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import info, model, node, weights

from openinfer.errors import ModelImportError
from openinfer.importers import load

ONES = {
    "w": np.ones((4, 3, 3, 3), np.float32),
    "t": np.ones((3, 4, 3, 3), np.float32),
    "c": np.ones((4, 3, 3, 3), np.int8),
    "W": np.ones((1, 20, 3), np.float32),
    "R": np.ones((1, 20, 5), np.float32),
    "h": np.ones((2, 2, 5), np.float32),
}

CASES = [
    (node("Conv", "x w", "y", kernel_shape=[2, 2]), "kernel_shape=[2, 2], but the weights have windows of [3, 3]"),
    (node("Conv", "x w", "y", strides=[2]), "strides=[2], expected 2 numbers for 2 dims"),
    (node("Conv", "x w", "y", dilations=[1, 1, 1]), "dilations=[1, 1, 1], expected 2 numbers for 2 dims"),
    (node("Conv", "x w", "y", pads=[1, 1]), "pads=[1, 1], expected 4 numbers for 2 dims"),
    (node("ConvTranspose", "x t", "y", kernel_shape=[3, 2]), "but the weights have windows of [3, 3]"),
    (node("ConvInteger", "i c", "y", kernel_shape=[1, 3]), "but the weights have windows of [3, 3]"),
    (node("MaxPool", "x", "y", kernel_shape=[2]), "kernel_shape=[2], expected 2 numbers for 2 dims"),
    (node("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[2]), "strides=[2], expected 2 numbers"),
    (node("LSTM", "s W R", "y", hidden_size=7), "hidden_size=7, but R is for 5 units"),
    (node("LSTM", "s W R", "y", hidden_size=5, direction="bidirectional"), "but W has 1 direction, expected 2"),
    (node("LSTM", "s W R - - h", "y", hidden_size=5), "but initial_h has 2 directions, expected 1"),
    (
        node("LSTM", "s W R", "y", hidden_size=5, direction="backward"),
        "direction=backward, expected forward or reverse or bidirectional",
    ),
    (node("ConvTranspose", "x t", "y", output_shape=[9]), "output_shape=[9], expected 2 numbers for 2 dims"),
    (node("ConvTranspose", "x t", "y", output_padding=[1]), "output_padding=[1], expected 2 numbers for 2 dims"),
]


@pytest.mark.parametrize(("made", "words"), CASES, ids=[words for _, words in CASES])
def test_a_contradiction_is_an_error(made: Any, words: str, tmp_path: Path) -> None:
    types = {"x": ([1, 3, 8, 8], 1), "i": ([1, 3, 8, 8], 2), "s": ([6, 2, 3], 1)}
    inputs = [info(name, dims, kind) for name, (dims, kind) in types.items() if name in made.input]
    used = {name: value for name, value in ONES.items() if name in made.input}
    path = tmp_path / "contradiction.onnx"
    path.write_bytes(model([made], inputs, [info("y", None)], weights(**used)).SerializeToString())
    with pytest.raises(ModelImportError) as raised:
        load(path)
    assert words in str(raised.value)


def test_elements_as_numbers_beside_raw_data_are_an_error(tmp_path: Path) -> None:
    proto = model([node("Add", "x b", "y")], [info("x", [2])], [info("y", None)], weights(b=np.ones(2, np.float32)))
    proto.graph.initializer[0].float_data.extend([5.0, 6.0])
    path = tmp_path / "twice.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelImportError, match="tensor 'b' has raw_data and float_data, expected one of them"):
        load(path)


@pytest.mark.parametrize("field", ["int32_data", "double_data"])
def test_elements_in_the_field_of_another_type_are_an_error(field: str, tmp_path: Path) -> None:
    proto = model([node("Add", "x b", "y")], [info("x", [2])], [info("y", None)], weights(b=np.ones(2, np.float32)))
    proto.graph.initializer[0].ClearField("raw_data")
    getattr(proto.graph.initializer[0], field).extend([5, 6])
    path = tmp_path / "other.onnx"
    path.write_bytes(proto.SerializeToString())
    words = rf"tensor 'b' has its elements in {field}, expected float_data for its type f32\[2\]"
    with pytest.raises(ModelImportError, match=words):
        load(path)
