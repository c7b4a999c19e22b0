"""Scores of classes: what classifiers of `ai.onnx.ml` make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


def classes_of(node: Node, name: str) -> list[int]:
    """Return the labels of classes, which have to be integers."""
    if node.get("classlabels_strings"):
        node.refuse("labels that are strings: train or export the classifier with integers as labels")
    labels = [int(label) for label in node.get(name, ())]
    if not labels:
        node.refuse("no labels of classes")
    return labels


def labelled(node: Node, scores: Value, labels: list[int]) -> Value:
    """Return the label of the greatest score of each row, [N]."""
    places = node.call("argmax_axis", scores, axis=1)
    if labels == list(range(len(labels))):
        return places if places.dtype is I64 else cast(node, places, I64)
    return node.call("gather", node.numbers(np.array(labels, np.int64)), places)


def post_transformed(node: Node, scores: Value, name: str) -> Value:
    """Return scores after the node's transform."""
    if name == "NONE":
        return scores
    op = {"SOFTMAX": "softmax", "LOGISTIC": "sigmoid"}.get(name)
    if op is None:
        node.refuse(f"post_transform={name}, expected NONE, SOFTMAX or LOGISTIC")
    return node.call(op, scores)


def binary_scores(node: Node, score: Value, post: str, labels: list[int], *, is_share: bool) -> tuple[Value, Value]:
    """Return labels and scores of two classes from the score of the second, [N, 1].

    A share p leaves 1 - p to the first class, and decides from 1/2 on; another score s is -s for the first.
    """
    if post not in ("NONE", "LOGISTIC"):
        node.refuse(f"post_transform={post} of one score for two classes, expected NONE or LOGISTIC")
    chosen, transformed = _chosen(node, score, labels, is_share=is_share), post_transformed(node, score, post)
    if is_share:
        other = node.call("sub", node.number(1.0, score.dtype), transformed)
    else:
        other = post_transformed(node, node.call("neg", score), post)
    return chosen, node.call("concat", other, transformed, axis=1)


def second_score(node: Node, score: Value, post: str, labels: list[int], *, is_share: bool) -> tuple[Value, Value]:
    """Return labels and scores of two classes of which the first has the score 0."""
    nothing = node.call("fill", score, value=0.0)
    both = node.call("concat", nothing, score, axis=1)
    return _chosen(node, score, labels, is_share=is_share), post_transformed(node, both, post)


def _chosen(node: Node, score: Value, labels: list[int], *, is_share: bool) -> Value:
    bound = node.number(0.5 if is_share else 0.0, score.dtype)
    is_second = node.call("squeeze", node.call("gt", score, bound), axes=(1,))
    return node.call("where", is_second, node.number(labels[1], I64), node.number(labels[0], I64))
