"""Nodes with as many results as there are elements, or boxes, of some kind, compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import FLOAT, INT64, info, model, node, onnx, run, saved, weights

from openinfer import Simulator
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


def slices(axis: int, ordered: int, kind: int = onnx.TensorProto.FLOAT) -> Any:
    """Few different values, of which slices differ in any element: the first, the last, or one between."""
    nodes = [
        node("Clip", "x low high", "few"),
        node("Round", "few", "whole"),
        node("Cast", "whole", "r", to=kind),
        node("Unique", "r", "y i v c", axis=axis, sorted=ordered),
    ]
    known = weights(low=np.float32(-0.6), high=np.float32(0.6))
    outputs = [info("y", None, kind), *(info(name, None, INT64) for name in "ivc")]
    return model(nodes, [info("x", [7 if axis else "T", 6, 2])], outputs, known)


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


@pytest.mark.parametrize(("axis", "ordered"), [(0, 1), (1, 0), (-1, 1)])
@pytest.mark.parametrize("kind", [onnx.TensorProto.FLOAT, INT64])
def test_slices_that_differ(axis: int, ordered: int, kind: int, tmp_path: Path) -> None:
    path = saved(slices(axis, ordered, kind), tmp_path)
    imported = load(path)

    assert verify(path, imported, steps=2).agrees
    x = np.random.default_rng(4).integers(-1, 2, (7, 6, 2)).astype(np.float32)
    rows = run_outputs(imported, x)
    values, indices, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.argsort(indices) if not ordered else np.arange(len(indices))
    assert [row.tolist() for row in rows] == [
        np.take(values, order, axis).tolist(),
        indices[order].tolist(),
        np.argsort(order)[inverse.reshape(-1)].tolist(),
        counts[order].tolist(),
    ]


def test_slices_of_truth_values(tmp_path: Path) -> None:
    nodes = [node("Unique", "x", "y i v c", axis=0)]
    outputs = [info("y", None, BOOL), *(info(name, None, INT64) for name in "ivc")]
    imported = load(saved(model(nodes, [info("x", ["T", 2], BOOL)], outputs), tmp_path))
    x = np.array([[True, False], [True, True], [True, False]])

    rows = [row.tolist() for row in run_outputs(imported, x)]

    assert rows == [[[True, False], [True, True]], [0, 1], [0, 1, 0], [2, 1]]


def run_outputs(imported: Any, x: np.ndarray) -> list[np.ndarray]:
    with Simulator(imported.model, imported.graph).make_executor() as executor:
        executor.step(**{imported.report.inputs["x"]: x})
        found = executor.outputs()
    return [found[name] for name in imported.report.outputs.values()]


def test_a_number_that_only_a_shape_reads_is_counted_all_the_same(tmp_path: Path) -> None:
    nodes = [node("NonZero", "x", "p"), node("Shape", "p", "s"), node("Slice", "s one two", "n")]
    proto = model(nodes, [info("x", ["T"])], [info("n", None, INT64)], weights(one=np.array([1]), two=np.array([2])))
    path = saved(proto, tmp_path)
    assert verify(path, load(path), steps=2).agrees


def test_what_the_importer_knows_is_counted_there(tmp_path: Path) -> None:
    nodes = [node("NonZero", "w", "p"), node("Transpose", "p", "t"), node("GatherND", "x t", "y")]
    proto = model(nodes, [info("x", [4])], [info("y", None)], weights(w=np.array([1, 0, 2, 0])))
    assert "nonzero" not in load(saved(proto, tmp_path)).text


@pytest.mark.parametrize("extent", [0, 1, 3])
def test_as_many_rows_may_be_counted_as_there_are_elements(extent: int, tmp_path: Path) -> None:
    nodes = [
        node("NonZero", "x", "p"),
        node("Shape", "p", "s", start=1),
        node("Equal", "s all", "y"),
        node("Less", "s all", "z"),
    ]
    outputs = [info(name, None, BOOL) for name in "yz"]
    proto = model(nodes, [info("x", [extent])], outputs, weights(all=np.array([extent])))
    y, z = run(load(saved(proto, tmp_path)), {"x": np.ones(extent, np.float32)})
    assert (y.item(), z.item()) == (True, False)


@pytest.mark.parametrize(("op", "inputs"), [("NonZero", "x"), ("Unique", "x"), ("Compress", "x m")])
@pytest.mark.parametrize("is_known", [False, True])
def test_nothing_is_counted_of_no_elements(op: str, inputs: str, is_known: bool, tmp_path: Path) -> None:
    empty = np.zeros(0, np.float32)
    given = [info("m", [0], BOOL)] if "m" in inputs else []
    if not is_known:
        given.append(info("x", [0]))
    kind = INT64 if op == "NonZero" else FLOAT
    proto = model([node(op, inputs, "y")], given, [info("y", None, kind)], weights(x=empty) if is_known else ())
    path = saved(proto, tmp_path)
    assert verify(path, load(path), steps=1).agrees


@pytest.mark.parametrize("results", ["y", "y i", "y - v", "y i v c"])
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize(
    "x",
    [
        np.array([-7, 3, -1, -9, -2, 7, 4, -7]),
        np.array([[2.5, -0.0, 1.0], [0.0, 2.5, -3.0]], np.float32),
        np.array([5, 0, 5, 2], np.uint8),
        np.zeros(0, np.int64),
    ],
    ids=["i64", "rows of f32", "u8", "none"],
)
def test_known_elements_are_in_the_order_that_is_asked_for(
    x: Any, is_sorted: int, results: str, tmp_path: Path
) -> None:
    elements = x.reshape(-1).tolist()
    different = list(dict.fromkeys(elements))
    different = sorted(different) if is_sorted else different
    wanted = {
        "y": different,
        "i": [elements.index(value) for value in different],
        "v": [different.index(value) for value in elements],
        "c": [elements.count(value) for value in different],
    }
    names = results.split(" ")
    proto = model([], [], [info(name, None, INT64) for name in names if name != "-"], weights(x=x))
    unique_node = onnx.helper.make_node("Unique", ["x"], [name.strip("-") for name in names], sorted=is_sorted)
    proto.graph.node.append(unique_node)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    imported = load(saved(proto, tmp_path))
    assert "unique(" not in imported.text
    for name, values in zip(proto.graph.output, run(imported, {}), strict=True):
        assert values.tolist() == wanted[name.name]


def test_slices_without_elements_are_equal(tmp_path: Path) -> None:
    proto = model([], [info("x", [0, 2])], [info("y", None), info("i", None, INT64)])
    proto.graph.node.append(onnx.helper.make_node("Unique", ["x"], ["y", "i"], axis=1))
    path = saved(proto, tmp_path)

    assert verify(path, load(path), steps=1).agrees


def test_thresholds_have_to_be_known(tmp_path: Path) -> None:
    nodes = [node("NonMaxSuppression", "b s most", "kept")]
    inputs = [info("b", [1, 3, 4]), info("s", [1, 1, 3]), info("most", [1], INT64)]
    with pytest.raises(ModelImportError, match="--set most=VALUE"):
        load(saved(model(nodes, inputs, [info("kept", None, INT64)]), tmp_path))
