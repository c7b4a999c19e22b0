"""Nodes with as many results as there are elements, or boxes, of some kind, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import INT64, info, model, node, onnx, saved, weights

from openinfer.errors import ModelImportError
from openinfer.importers import load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

BOOL = onnx.TensorProto.BOOL


def nonzero() -> Any:
    nodes = [
        node("Relu", "x", "r"),
        node("NonZero", "r", "p"),
        node("Transpose", "p", "t"),
        node("GatherND", "x t", "v"),
        node("Shape", "v", "s"),
        node("Concat", "s one", "shape", axis=0),
        node("Reshape", "v shape", "c"),
    ]
    outputs = [info("p", None, INT64), info("s", None, INT64), info("c", None)]
    return model(nodes, [info("x", ["T", 3])], outputs, weights(one=np.array([1])))


def compress() -> Any:
    nodes = [
        node("Greater", "x h", "m"),
        node("Compress", "x m", "a", axis=0),
        node("Compress", "z m", "b", axis=1),
        node("Compress", "z m2", "c"),
    ]
    inputs = [info("x", ["T"]), info("z", [3, "T"]), info("m2", [2], BOOL)]
    return model(nodes, inputs, [info(name, None) for name in "abc"], weights(h=np.float32(0)))


def unique() -> Any:
    nodes = [
        node("Round", "x", "r"),
        node("Unique", "r", "y i v c", sorted=0),
        node("Unique", "r", "y2 i2 v2 c2"),
    ]
    outputs = [info(n + k, None, *([] if n == "y" else [INT64])) for k in ("", "2") for n in "yivc"]
    return model(nodes, [info("x", ["T", 4])], outputs)


def boxes(**attributes: int) -> Any:
    nodes = [
        node("NonMaxSuppression", "b s most iou score", "kept", **attributes),
        node("Slice", "kept two three one", "w"),
        node("Squeeze", "w one", "i"),
        node("Squeeze", "b zero", "all"),
        node("Gather", "all i", "found"),
    ]
    known = weights(
        most=np.array([10]),
        iou=np.array([0.5], np.float32),
        score=np.array([0.1], np.float32),
        **{name: np.array([number]) for number, name in enumerate(("zero", "one", "two", "three"))},
    )
    outputs = [info("kept", None, INT64), info("found", None)]
    return model(nodes, [info("b", [1, 30, 4]), info("s", [1, 2, 30])], outputs, known)


@pytest.mark.parametrize(
    "proto",
    [nonzero(), compress(), unique(), boxes(), boxes(center_point_box=1)],
    ids=["NonZero", "Compress", "Unique", "NonMaxSuppression", "NonMaxSuppression of centers"],
)
def test_rows_that_the_model_counts(proto: Any, tmp_path: Path) -> None:
    path = saved(proto, tmp_path)
    assert verify(path, load(path), steps=3).agrees


def test_a_number_that_only_a_shape_reads_is_counted_all_the_same(tmp_path: Path) -> None:
    nodes = [node("NonZero", "x", "p"), node("Shape", "p", "s"), node("Slice", "s one two", "n")]
    proto = model(nodes, [info("x", ["T"])], [info("n", None, INT64)], weights(one=np.array([1]), two=np.array([2])))
    path = saved(proto, tmp_path)
    assert verify(path, load(path), steps=2).agrees


def test_what_the_importer_knows_is_counted_there(tmp_path: Path) -> None:
    nodes = [node("NonZero", "w", "p"), node("Transpose", "p", "t"), node("GatherND", "x t", "y")]
    proto = model(nodes, [info("x", [4])], [info("y", None)], weights(w=np.array([1, 0, 2, 0])))
    assert "nonzero" not in load(saved(proto, tmp_path)).text


def test_thresholds_have_to_be_known(tmp_path: Path) -> None:
    nodes = [node("NonMaxSuppression", "b s most", "kept")]
    inputs = [info("b", [1, 3, 4]), info("s", [1, 1, 3]), info("most", [1], INT64)]
    with pytest.raises(ModelImportError, match="--set most=VALUE"):
        load(saved(model(nodes, inputs, [info("kept", None, INT64)]), tmp_path))
