"""Ensembles of decision trees."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import F32, F64, DType
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.families.scores import (
    binary_scores,
    classes_of,
    labelled,
    post_transformed,
    second_score,
)
from openinfer.importers.onnx_files.forests import Branch, Forest, ForestError, forest_of
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Value

ML = "ai.onnx.ml"
_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


def _summed(node: Node, forest: Forest, dtype: DType) -> Value:
    """Return the sums of the weights of leaves, [N, C]."""
    x = node.given(0)
    if x.rank != 2:
        node.refuse(f"rows in {x.rank} dims, expected [N, F]")
    x = x if x.dtype is dtype else cast(node, x, dtype)
    tables = [forest.feature, forest.threshold, forest.children, forest.roots, forest.weights]
    names = ("feature", "threshold", "children", "roots", "weights")
    inputs = [
        node.emit.constant(table, _type_of(table), f"{node.source.name or 'trees'}.{name}")
        for table, name in zip(tables, names, strict=True)
    ]
    passes = node.numbers(forest.missing) if forest.missing.any() else None
    return node.call("tree_ensemble", x, *inputs, passes, depth=forest.depth)


def _type_of(table: Array) -> DType:
    from openinfer.importers.onnx_files.elements import array_type

    return array_type(table)


def _numbers_of(node: Node, name: str) -> Array:
    """Return numbers that are an attribute, as a tensor or as floats."""
    payload = node.tensor_attribute(f"{name}_as_tensor")
    return payload.load().reshape(-1) if payload is not None else np.array(node.get(name, ()), np.float32)


def _forest(node: Node, of: str, columns: int, dtype: DType) -> Forest:
    """Return the trees of a node whose weights have the attributes ``of``_ids, ``of``_weights and so on."""
    keys = list(zip(node.get("nodes_treeids"), node.get("nodes_nodeids"), strict=True))
    trees = [tree for tree, _ in keys]
    count = len(keys)
    if len(set(keys)) != count:
        node.refuse("two nodes of one tree with one number")
    left, right = (list(zip(trees, node.get(f"nodes_{side}nodeids"), strict=True)) for side in ("true", "false"))
    modes, values = node.get("nodes_modes"), _numbers_of(node, "nodes_values").tolist()
    missing = node.get("nodes_missing_value_tracks_true") or [0] * count
    branches: dict[object, Branch] = {}
    leaves: dict[object, list[float]] = {}
    for key, mode, feature, value, yes, no, passes in zip(
        keys, modes, node.get("nodes_featureids"), values, left, right, missing, strict=True
    ):
        if mode == "LEAF":
            leaves[key] = [0.0] * columns
        else:
            branches[key] = Branch(mode, int(feature), float(value), yes, no, bool(passes))
    targets = zip(node.get(f"{of}_treeids"), node.get(f"{of}_nodeids"), node.get(f"{of}_ids"), strict=True)
    for (tree, number, column), weight in zip(targets, _numbers_of(node, f"{of}_weights").tolist(), strict=True):
        leaves[tree, number][column] += weight
    below = {child for branch in branches.values() for child in (branch.left, branch.right)}
    return _tables(node, branches, leaves, [key for key in keys if key not in below], columns, dtype)


def _tables(
    node: Node,
    branches: dict[object, Branch],
    leaves: dict[object, list[float]],
    roots: Sequence[object],
    columns: int,
    dtype: DType,
) -> Forest:
    try:
        forest = forest_of(branches, {**leaves}, roots, columns, storage_dtype(dtype).name)
    except ForestError as error:
        node.refuse(str(error))
    width = node.shape(0)[1] if node.given(0).shape else None
    if width is not None and forest.feature.max() >= width:
        node.refuse(f"a node compares element {int(forest.feature.max())} of rows of {width}")
    return forest


def _dtype(node: Node) -> DType:
    """Return the type that trees are walked in: f64 where rows are, else f32."""
    return F64 if node.given(0).dtype is F64 else F32


def _base(node: Node, scores: Value) -> Value:
    base = _numbers_of(node, "base_values")
    if not base.any():
        return scores
    return node.call("add", scores, node.numbers(base.astype(storage_dtype(scores.dtype))))


@translates("TreeEnsembleRegressor", domain=ML)
def _regressor(node: Node) -> Value:
    targets, dtype = int(node.get("n_targets", 1)), _dtype(node)
    forest = _forest(node, "target", targets, dtype)
    total = _aggregated(node, _summed(node, forest, dtype), forest, node.get("aggregate_function", "SUM"))
    return cast(node, post_transformed(node, _base(node, total), node.get("post_transform", "NONE")), F32)


def _aggregated(node: Node, total: Value, forest: Forest, function: str) -> Value:
    if function == "AVERAGE":
        return node.call("div", total, node.number(len(forest.roots), total.dtype))
    if function != "SUM":
        node.refuse(f"aggregate_function={function}, expected SUM or AVERAGE")
    return total


@translates("TreeEnsembleClassifier", domain=ML)
def _classifier(node: Node) -> tuple[Value | None, ...]:
    labels, dtype = classes_of(node, "classlabels_int64s"), _dtype(node)
    ids, post = set(node.get("class_ids")), node.get("post_transform", "NONE")
    is_binary = len(labels) == 2 and len(ids) == 1
    if not is_binary:
        forest = _forest(node, "class", len(labels), dtype)
        scores = _base(node, _summed(node, forest, dtype))
        return labelled(node, scores, labels), cast(node, post_transformed(node, scores, post), F32)
    base = _numbers_of(node, "base_values")
    if len(base) > 1 or (len(base) and max(ids)):
        node.refuse("base values of a score that stands for two classes, other than one of the first class")
    whole = _forest(node, "class", max(ids) + 1, dtype)
    forest = replace(whole, weights=np.ascontiguousarray(whole.weights[:, max(ids) :]))
    score, is_share = _base(node, _summed(node, forest, dtype)), bool((forest.weights >= 0).all())
    of_two = second_score if max(ids) else binary_scores
    chosen, scores = of_two(node, score, post, labels, is_share=is_share)
    return chosen, cast(node, scores, F32)


@translates("TreeEnsemble", domain=ML)
def _ensemble(node: Node) -> Value:
    """Trees whose nodes and leaves are numbered apart, over all trees."""
    dtype, columns = _dtype(node), int(node.get("n_targets", 1))
    modes, splits = node.tensor_attribute("nodes_modes"), node.tensor_attribute("nodes_splits")
    weights = node.tensor_attribute("leaf_weights")
    if modes is None or splits is None or weights is None:
        node.refuse("nodes_modes, nodes_splits or leaf_weights is missing")
    sides = [
        [("leaf" if is_leaf else "node", number) for number, is_leaf in zip(numbers, ends, strict=True)]
        for numbers, ends in (
            (node.get("nodes_truenodeids"), node.get("nodes_trueleafs")),
            (node.get("nodes_falsenodeids"), node.get("nodes_falseleafs")),
        )
    ]
    count = len(node.get("nodes_featureids"))
    missing = node.get("nodes_missing_value_tracks_true") or [0] * count
    members = node.tensor_attribute("membership_values")
    sets = _sets([] if members is None else members.load().tolist())
    branches: dict[object, Branch] = {}
    rows = zip(modes.load(), node.get("nodes_featureids"), splits.load(), *sides, missing, strict=True)
    for place, (mode, feature, split, yes, no, passes) in enumerate(rows):
        if _MODES[int(mode)] != "BRANCH_MEMBER":
            branches["node", place] = Branch(_MODES[int(mode)], int(feature), float(split), yes, no, bool(passes))
            continue
        # One comparison after the other with the numbers of the set.
        numbers = next(sets)
        keys = [("node", place), *(("member", place, turn) for turn in range(1, len(numbers)))]
        for key, number, following in zip(keys, numbers, [*keys[1:], no], strict=True):
            branches[key] = Branch("BRANCH_EQ", int(feature), number, yes, following, bool(passes))
    leaves: dict[object, list[float]] = {}
    for place, (column, weight) in enumerate(zip(node.get("leaf_targetids"), weights.load().tolist(), strict=True)):
        leaves["leaf", place] = [0.0] * columns
        leaves["leaf", place][column] = weight
    # A tree of one leaf is a node both of whose sides are that leaf.
    roots = [("node", root) for root in node.get("tree_roots")]
    forest = _tables(node, branches, leaves, roots, columns, dtype)
    total = _aggregated(node, _summed(node, forest, dtype), forest, _AGGREGATES[int(node.get("aggregate_function", 1))])
    return post_transformed(node, total, _POST[int(node.get("post_transform", 0))])


def _sets(numbers: Sequence[float]) -> Iterator[list[float]]:
    """Yield the sets of numbers that nodes compare with, which NaN separates."""
    members: list[float] = []
    for number in numbers:
        if not math.isnan(number):
            members.append(number)
        elif members:
            yield members
            members = []
    if members:
        yield members
