"""Models and preparations of rows of numbers, without trees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import F32, I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.families.scores import binary_scores, classes_of, labelled, post_transformed
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value

ML = "ai.onnx.ml"


def _rows(node: Node, position: int = 0) -> Value:
    """Return rows of numbers as f32."""
    x = node.given(position)
    return x if x.dtype is F32 else cast(node, x, F32)


def _row(node: Node, name: str) -> Value:
    return node.numbers(np.array(node.get(name, ()), np.float32))


# Linear models and support vectors


def _linear(node: Node, rows: int) -> Value:
    """Return the products of rows with as many rows of coefficients, plus intercepts."""
    weights = np.array(node.get("coefficients"), np.float32).reshape(rows, -1)
    bias = np.array(node.get("intercepts") or [0.0] * rows, np.float32)
    return node.call("linear", _rows(node), node.numbers(np.ascontiguousarray(weights.T)), node.numbers(bias))


@translates("LinearRegressor", domain=ML)
def _linear_regressor(node: Node) -> Value:
    return post_transformed(node, _linear(node, int(node.get("targets", 1))), node.get("post_transform", "NONE"))


@translates("LinearClassifier", domain=ML)
def _linear_classifier(node: Node) -> tuple[Value, Value]:
    labels, post = classes_of(node, "classlabels_ints"), node.get("post_transform", "NONE")
    count = len(node.get("intercepts", ())) or len(labels)
    scores = _linear(node, count)
    if count == 1:
        if post != "NONE":
            node.refuse(f"post_transform={post} of one score for two classes")
        labels_of, _ = binary_scores(node, scores, post, labels, is_share=False)
        return labels_of, node.call("concat", node.call("sub", node.number(1.0, F32), scores), scores, axis=1)
    return labelled(node, scores, labels), post_transformed(node, scores, post)


@translates("SVMRegressor", domain=ML)
def _svm_regressor(node: Node) -> Value:
    """The sum of kernels with support vectors, or a product where there are none; one class gives its side."""
    supports, x = int(node.get("n_supports", 0)), _rows(node)
    weights = np.array(node.get("coefficients"), np.float32).reshape(-1, 1)
    kernels = _kernels(node, x, supports) if supports else x
    total = node.call("linear", kernels, node.numbers(weights), node.numbers(np.array(node.get("rho")[:1], np.float32)))
    if not node.flag("one_class"):
        return post_transformed(node, total, node.get("post_transform", "NONE"))
    inside = node.call("gt", total, node.number(0.0, F32))
    return node.call("where", inside, node.number(1.0, F32), node.number(-1.0, F32))


@translates("SVMClassifier", domain=ML)
def _svm_classifier(node: Node) -> tuple[Value, Value]:
    """A score for each pair of classes, whose sign is a vote for one of them; the label has the most votes.

    The coefficients of a support vector of class i have a row for each other class, in order (libsvm's `sv_coef`).
    """
    labels, post = classes_of(node, "classlabels_ints"), node.get("post_transform", "NONE")
    counts = [int(count) for count in node.get("vectors_per_class", ())]
    if node.get("prob_a"):
        node.refuse("probabilities of pairs of classes (prob_a): train with probability=False, which leaves scores")
    if post != "NONE":
        node.refuse(f"post_transform={post} of scores of pairs, expected NONE")
    if len(counts) != len(labels):
        node.refuse(f"{len(counts)} numbers of support vectors for {len(labels)} classes")
    supports = sum(counts)
    coefficients = np.array(node.get("coefficients"), np.float32).reshape(len(labels) - 1, supports)
    class_of = np.repeat(np.arange(len(labels)), counts)
    pairs = [(i, j) for i in range(len(labels)) for j in range(i + 1, len(labels))]
    weights = np.zeros((supports, len(pairs)), np.float32)
    votes = np.zeros((len(pairs), len(labels)), np.float32)
    for place, (i, j) in enumerate(pairs):
        weights[:, place] = np.where(class_of == i, coefficients[j - 1], np.where(class_of == j, coefficients[i], 0))
        votes[place, i], votes[place, j] = 1, -1
    against = np.sum(votes < 0, axis=0).astype(np.float32)
    rho = node.numbers(np.array(node.get("rho"), np.float32))
    scores = node.call("linear", _kernels(node, _rows(node), supports), node.numbers(weights), rho)
    wins = cast(node, node.call("gt", scores, node.number(0.0, F32)), F32)
    label = labelled(node, node.call("linear", wins, node.numbers(votes), node.numbers(against)), labels)
    return label, scores if len(labels) > 2 else node.call("concat", node.call("neg", scores), scores, axis=1)


def _kernels(node: Node, x: Value, supports: int) -> Value:
    """Return the kernel of each row with each support vector, [N, S]."""
    vectors = np.array(node.get("support_vectors"), np.float32).reshape(supports, -1)
    gamma, offset, degree = (float(number) for number in (node.get("kernel_params") or [0.0, 0.0, 0.0]))
    kind = node.get("kernel_type", "LINEAR")
    products = node.call("matmul", x, node.numbers(np.ascontiguousarray(vectors.T)))
    if kind == "LINEAR":
        return products
    if kind == "RBF":
        apart = node.call("sub", node.call("unsqueeze", x, axes=(1,)), node.numbers(vectors))
        squares = node.call("sum_axis", node.call("square", apart), axes=(2,))
        return node.call("exp", node.call("mul", squares, node.number(-gamma, F32)))
    scaled = node.call("add", node.call("mul", products, node.number(gamma, F32)), node.number(offset, F32))
    if kind == "POLY":
        return node.call("pow", scaled, node.number(degree, F32))
    if kind != "SIGMOID":
        node.refuse(f"kernel_type={kind}, expected LINEAR, POLY, RBF or SIGMOID")
    return node.call("tanh", scaled)


# Preparations


@translates("Scaler", domain=ML)
def _scaler(node: Node) -> Value:
    return node.call("mul", node.call("sub", _rows(node), _row(node, "offset")), _row(node, "scale"))


@translates("Normalizer", domain=ML)
def _normalizer(node: Node) -> Value:
    """Rows over their greatest element, the sum of magnitudes or the root of the sum of squares; 0 leaves a row."""
    x, norm = _rows(node), node.get("norm", "MAX")
    match norm:
        case "MAX":
            size = node.call("max_axis", x, axes=(-1,), keepdims=True)
        case "L1":
            size = node.call("sum_axis", node.call("abs", x), axes=(-1,), keepdims=True)
        case "L2":
            size = node.call("sqrt", node.call("sum_axis", node.call("square", x), axes=(-1,), keepdims=True))
        case _:
            node.refuse(f"norm={norm}, expected MAX, L1 or L2")
    is_zero = node.call("eq", size, node.number(0.0, F32))
    return node.call("div", x, node.call("where", is_zero, node.number(1.0, F32), size))


@translates("Imputer", domain=ML)
def _imputer(node: Node) -> Value:
    x = node.given(0)
    if x.dtype.is_float:
        values, replaced = node.get("imputed_value_floats", ()), float(node.get("replaced_value_float", 0.0))
    else:
        values, replaced = node.get("imputed_value_int64s", ()), int(node.get("replaced_value_int64", 0))
    from openinfer.array_types import storage_dtype

    row = node.numbers(np.array(values[0] if len(values) == 1 else values, storage_dtype(x.dtype)))
    is_nan = isinstance(replaced, float) and math.isnan(replaced)
    is_missing = node.call("is_nan", x) if is_nan else node.call("eq", x, node.number(replaced, x.dtype))
    return node.call("where", is_missing, row, x)


@translates("Binarizer", domain=ML)
def _binarizer(node: Node) -> Value:
    x, threshold = node.given(0), float(node.get("threshold", 0.0))
    # An integer is greater than a number if it is greater than the integer below.
    limit = threshold if x.dtype.is_float else math.floor(threshold)
    return cast(node, node.call("gt", x, node.number(limit, x.dtype)), x.dtype)


@translates("ArrayFeatureExtractor", domain=ML)
def _feature_extractor(node: Node) -> Value:
    x, places = node.given(0), node.given(1)
    flat = node.reshaped(places, (-1,)) if places.rank != 1 else places
    found = node.call("gather", x, flat, axis=x.rank - 1)
    return node.call("unsqueeze", found, axes=(0,)) if x.rank == 1 else found


@translates("FeatureVectorizer", domain=ML)
def _feature_vectorizer(node: Node) -> Value:
    parts = [_rows(node, position) for position in range(len(node.inputs))]
    return node.call("concat", *parts, axis=1)


@translates("OneHotEncoder", domain=ML)
def _one_hot_encoder(node: Node) -> Value:
    categories = node.get("cats_int64s")
    if not categories:
        node.refuse("categories that are strings: encode them as integers before the model")
    x = node.given(0)
    wide = node.call("unsqueeze", x if x.dtype is I64 else cast(node, x, I64), axes=(-1,))
    rows = cast(node, node.call("eq", wide, node.numbers(np.array(categories, np.int64))), F32)
    if node.flag("zeros", True):
        return rows
    # A row of zeros would be an error there: it reads a row past the last of the identity matrix, which is one here.
    is_none = node.call("eq", node.call("sum_axis", rows, axes=(-1,)), node.number(0.0, F32))
    past = node.call("where", is_none, node.number(len(categories), I64), node.call("argmax_axis", rows, axis=-1))
    return node.call("embedding", past, node.numbers(np.eye(len(categories), dtype=np.float32)))


@translates("LabelEncoder", domain=ML)
def _label_encoder(node: Node) -> Value:
    """Each element by the place of the key that equals it, where there is one."""
    keys, values = _encoded(node, "keys"), _encoded(node, "values")
    payload = node.tensor_attribute("default_tensor")
    if payload is not None:
        default: Any = payload.load().reshape(-1)[0]
    else:
        default = node.get("default_int64", -1) if values.dtype.kind == "i" else node.get("default_float", -0.0)
    x = node.given(0)
    equal = node.call("eq", node.call("unsqueeze", x, axes=(-1,)), node.numbers(keys))
    if node.opset >= 4 and keys.dtype.kind == "f" and np.isnan(keys).any():
        # Since then a key that is NaN stands for any NaN.
        both = node.call(
            "and", node.call("unsqueeze", node.call("is_nan", x), axes=(-1,)), node.numbers(np.isnan(keys))
        )
        equal = node.call("or", equal, both)
    place = node.call("argmax_axis", cast(node, equal, F32), axis=-1)
    chosen = node.call("gather", node.numbers(values), place)
    there = node.call("any_axis", equal, axes=(-1,))
    return node.call("where", there, chosen, node.numbers(np.asarray(default, values.dtype)))


def _encoded(node: Node, what: str) -> Any:
    """Return keys or values of a node, which have to be numbers."""
    payload = node.tensor_attribute(f"{what}_tensor")
    if payload is not None:
        return payload.load().reshape(-1)
    whole, real = (node.get(f"{what}_{kind}") for kind in ("int64s", "floats"))
    if not whole and not real:
        node.refuse(f"{what} that are strings: encode them as integers before the model")
    return np.array(whole, np.int64) if whole else np.array(real, np.float32)


@translates("ZipMap", domain=ML)
def _zip_map(node: Node) -> Value:
    """Maps from labels to scores stay rows of scores."""
    labels = node.get("classlabels_int64s") or node.get("classlabels_strings") or ()
    shown = ", ".join(map(str, labels[:8])) + (", ..." if len(labels) > 8 else "")
    node.emit.notes.append(f"{node.source.title} is left out: its result is a row of scores, in order of {shown}")
    return node.call("identity", node.given(0))
