"""Ensembles of trees compute what ONNX Runtime does, by a walk over constant tables."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from onnx_models import helper, info, numpy_helper, run, saved
from runtime_models import agrees, model, node, of_runtime

from openinfer import Simulator
from openinfer.errors import ModelImportError
from openinfer.importers import load, verify
from openinfer.importers.step_sizes import WORK, StepPrograms, loop_operations
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(15)
FEATURES = 4
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")


def rows(count: int) -> Any:
    """Return rows of quarters, which thresholds meet, with a few that are NaN."""
    x = (RNG.integers(-4, 5, (count, FEATURES)) / 4).astype(np.float32)
    return np.where(RNG.random(x.shape) < 0.1, np.float32(np.nan), x)


def trees(draw: Random, of: str, count: int, columns: list[int], modes: tuple[str, ...] = MODES) -> dict[str, Any]:
    """Return the attributes of random trees, whose leaves have weights for each of the columns."""
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    nodes: dict[str, list[Any]] = {name: [] for name in (*names, "missing_value_tracks_true")}
    weights: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        waiting, following = [(0, 0)], 1
        while waiting:
            number, depth = waiting.pop()
            is_leaf = depth >= draw.randint(0, 4)
            below = (0, 0) if is_leaf else (following, following + 1)
            row = (tree, number, draw.randrange(FEATURES), "LEAF" if is_leaf else draw.choice(modes))
            row += (draw.randint(-4, 4) / 4, *below, draw.randint(0, 1))
            for name, value in zip(nodes, row, strict=True):
                nodes[name].append(value)
            if not is_leaf:
                waiting += [(child, depth + 1) for child in below]
                following += 2
                continue
            for column in columns:
                for name, value in zip(weights, (tree, number, column, draw.uniform(-1, 1)), strict=True):
                    weights[name].append(value)
    return {f"nodes_{k}": v for k, v in nodes.items()} | {f"{of}_{k}": v for k, v in weights.items()}


@pytest.mark.parametrize("seed", range(8))
def test_a_regressor_computes_what_onnx_runtime_does(seed: int, tmp_path: Path) -> None:
    draw = Random(f"regressor {seed}")
    columns = draw.randint(1, 3)
    attributes = trees(draw, "target", draw.randint(1, 6), list(range(columns)))
    attributes |= draw.choice(({}, {"aggregate_function": "AVERAGE"}, {"base_values": [0.25] * columns}))
    made = node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", n_targets=columns, **attributes)
    x = rows(40)
    text = agrees(model([made], {"x": x}, ["y"], {}), {"x": x}, tmp_path)
    assert text.count("op tree_ensemble(") == 1


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("seed", range(3))
def test_a_classifier_computes_what_onnx_runtime_does(seed: int, post: str, tmp_path: Path) -> None:
    draw = Random(f"classifier {seed}")
    attributes = trees(draw, "class", draw.randint(2, 6), [0, 1, 2], ("BRANCH_LEQ",))
    attributes |= {"post_transform": post, "classlabels_int64s": [3, 5, 9], "base_values": [0.1, 0.2, 0.3]}
    made = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", **attributes)
    x = rows(40)
    agrees(model([made], {"x": x}, ["y", "z"], {}), {"x": x}, tmp_path)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("is_share", [True, False])
@pytest.mark.parametrize("column", [0, 1])
def test_one_score_stands_for_two_classes(column: int, is_share: bool, post: str, tmp_path: Path) -> None:
    attributes = trees(Random("two"), "class", 4, [column])
    if is_share:
        attributes["class_weights"] = [abs(weight) / 4 for weight in attributes["class_weights"]]
    attributes |= {"post_transform": post, "classlabels_int64s": [3, 5]}
    made = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", **attributes)
    x = rows(40)
    agrees(model([made], {"x": x}, ["y", "z"], {}), {"x": x}, tmp_path)


def ensemble(function: int, mode: int) -> Any:
    """Return a model of the operator that version 5 of the domain has for all of them, on doubles."""

    def table(values: Any) -> Any:
        return numpy_helper.from_array(np.asarray(values))

    attributes: dict[str, Any] = {
        "n_targets": 2,
        "aggregate_function": function,
        "tree_roots": [0, 2],
        "nodes_modes": table(np.full(3, mode, np.uint8)),
        "nodes_featureids": [0, 1, 2],
        "nodes_splits": table(np.array([0.25, -0.5, 0.5])),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [1, 2, 3],
        "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": table(np.array([1.5, -2.0, 0.25, 4.0])),
    }
    made = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph([made], "g", [info("x", [30, FEATURES], 11)], [info("y", [30, 2], 11)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("function", [0, 1])
@pytest.mark.parametrize("mode", range(6))
def test_the_operator_of_version_5(function: int, mode: int, tmp_path: Path) -> None:
    proto, x = ensemble(function, mode), rows(30).astype(np.float64)
    (ours,) = run(load(saved(proto, tmp_path)), {"x": x})
    np.testing.assert_allclose(ours, of_runtime(proto, {"x": x})[0], rtol=1e-12)


def test_a_node_may_ask_for_members_of_a_set(tmp_path: Path) -> None:
    proto = ensemble(1, 6)
    sets = numpy_helper.from_array(np.array([0.25, 0.5, np.nan, -0.5, np.nan, 0.0, 0.25, 1.0]))
    proto.graph.node[0].attribute.append(helper.make_attribute("membership_values", sets))
    x = rows(30).astype(np.float64)
    (ours,) = run(load(saved(proto, tmp_path)), {"x": x})
    for row, (left, right) in zip(x, ours, strict=True):
        leaves = [(0 if row[1] == -0.5 else 2) if row[0] in (0.25, 0.5) else 1]
        leaves.append(2 if row[2] in (0.0, 0.25, 1.0) else 3)
        weights = [1.5, -2.0, 0.25, 4.0]
        assert left == sum(weights[leaf] for leaf in leaves if leaf % 2 == 0)
        assert right == sum(weights[leaf] for leaf in leaves if leaf % 2 == 1)


@pytest.mark.skipif("c" not in Environment.default().devices, reason="compares with the device c")
def test_trees_walk_alike_in_c(tmp_path: Path) -> None:
    attributes = trees(Random("c"), "target", 9, [0, 1])
    made = node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", n_targets=2, **attributes)
    x = rows(25)
    imported = load(saved(model([made], {"x": x}, ["y"], {}), tmp_path))
    results: list[Any] = []
    for device in ("cpu", "c"):
        executor = Simulator(imported.model, imported.graph, device=device).make_executor()
        executor.insert(x=x)
        executor.step()
        results.append(executor.fetch("y"))
    np.testing.assert_array_equal(results[0], results[1])


def changed(**changes: Any) -> Any:
    attributes = trees(Random("wrong"), "target", 2, [0], ("BRANCH_LEQ",)) | changes
    return node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", **attributes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"aggregate_function": "MAX"}, "aggregate_function=MAX, expected SUM or AVERAGE"),
        ({"post_transform": "PROBIT"}, "post_transform=PROBIT, expected NONE, SOFTMAX or LOGISTIC"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_MEMBER"]}, "do not fit the operator"),
    ],
)
def test_an_error_names_what_is_not_supported(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ModelImportError) as raised:
        load(saved(model([changed(**changes)], {"x": rows(2)}, ["y"], {}), tmp_path))
    assert words in str(raised.value)


def test_a_node_below_itself_is_an_error(tmp_path: Path) -> None:
    attributes: dict[str, Any] = {"nodes_treeids": [0] * 4, "nodes_nodeids": [0, 1, 2, 3], "nodes_featureids": [0] * 4}
    attributes |= {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF"], "nodes_values": [0.0] * 4}
    attributes |= {"nodes_truenodeids": [1, 2, 1, 0], "nodes_falsenodeids": [3, 3, 3, 0]}
    attributes |= {"target_treeids": [0], "target_nodeids": [3], "target_ids": [0], "target_weights": [1.0]}
    made = node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", **attributes)
    with pytest.raises(ModelImportError, match=r"lies below itself"):
        load(saved(model([made], {"x": rows(2)}, ["y"], {}), tmp_path))


def test_labels_that_are_strings_are_refused_with_the_way_out(tmp_path: Path) -> None:
    attributes = trees(Random("text"), "class", 2, [0, 1]) | {"classlabels_strings": ["a", "b"]}
    made = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", **attributes)
    with pytest.raises(ModelImportError, match="train or export the classifier with integers as labels"):
        load(saved(model([made], {"x": rows(2)}, ["y", "z"], {}), tmp_path))


def of_any_rows(made: Any, outputs: list[str]) -> Any:
    """Return a model of a node on any number of rows."""
    proto = model([made], {"x": rows(4)}, outputs, {})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return proto


def stumps(weights: list[float]) -> dict[str, Any]:
    """Return the attributes of trees that are one leaf each, with these weights for a class and, in reverse order, for
    another."""
    count = len(weights)
    nodes = {f"nodes_{name}": [0] * count for name in ("nodeids", "featureids", "truenodeids", "falsenodeids")}
    nodes |= {"nodes_treeids": list(range(count)), "nodes_modes": ["LEAF"] * count, "nodes_values": [0.0] * count}
    twice = [*range(count), *range(count)]
    leaves = {"class_treeids": twice, "class_nodeids": [0] * len(twice)}
    leaves |= {"class_ids": [0] * count + [1] * count, "class_weights": [*weights, *reversed(weights)]}
    return nodes | leaves | {"classlabels_int64s": [0, 1, 2], "base_values": [0.0, 0.0, 0.0]}


def test_classes_that_nearly_tie_agree_however_many_processors_the_original_could_take(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="its threads share trees")
    attributes = stumps([0.1 * number for number in RNG.permutation(60)])
    made = node("TreeEnsembleClassifier", "x", "y z", domain="ai.onnx.ml", **attributes)
    path = saved(of_any_rows(made, ["y", "z"]), tmp_path)

    assert verify(path, load(path), limits={"N": 1 << 12}).agrees


def test_verification_takes_fewer_rows_the_more_trees_they_walk_through(tmp_path: Path) -> None:
    attributes = trees(Random("large"), "target", 400, [0])
    made = node("TreeEnsembleRegressor", "x", "y", domain="ai.onnx.ml", n_targets=1, **attributes)
    imported = load(saved(of_any_rows(made, ["y"]), tmp_path))
    environment = Environment.default()
    programs = StepPrograms(imported, environment)

    least, largest = (loop_operations(programs.of(step), environment) for step in (2, 1))

    assert WORK / 4 < largest <= least + WORK
