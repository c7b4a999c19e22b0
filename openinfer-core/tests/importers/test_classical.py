"""Linear models, support vectors and preparations of `ai.onnx.ml` compute what ONNX Runtime does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import run, saved
from runtime_models import agrees, model, node

from openinfer.errors import ExecutionError, ModelImportError
from openinfer.importers import load, verify
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(16)
X = RNG.standard_normal((7, 4)).astype(np.float32)
WHOLE = np.arange(8).reshape(2, 4)
HOLES = np.where(RNG.random((7, 4)) < 0.3, np.float32(np.nan), X)
NAN = float("nan")


def reals(count: int) -> list[float]:
    return RNG.standard_normal(count).tolist()


def votes(counts: list[int]) -> dict[str, Any]:
    """Return a classifier with some support vectors of each class."""
    classes, supports = len(counts), sum(counts)
    return {
        "vectors_per_class": counts,
        "classlabels_ints": [7, 3, 8, 5][:classes],
        "coefficients": reals((classes - 1) * supports),
        "support_vectors": reals(4 * supports),
        "rho": reals(classes * (classes - 1) // 2),
    }


VECTORS = {"coefficients": reals(3), "support_vectors": reals(12), "n_supports": 3, "rho": [0.4]}
THREE = {"coefficients": reals(12), "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [3, 8, 9]}

CASES: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("LinearClassifier", X, "y z", {"coefficients": reals(4), "intercepts": [0.1], "classlabels_ints": [3, 8]}),
    *(("LinearClassifier", X, "y z", THREE | {"post_transform": name}) for name in ("NONE", "SOFTMAX", "LOGISTIC")),
    ("LinearRegressor", X, "y", {"coefficients": reals(8), "intercepts": [0.1, 0.2], "targets": 2}),
    *(
        ("SVMRegressor", X, "y", VECTORS | {"kernel_type": kind, "kernel_params": [0.3, 0.2, 3.0]})
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    ("SVMRegressor", X, "y", {"coefficients": reals(4), "rho": [0.4], "kernel_params": [0.3, 0.2, 3.0]}),
    ("SVMRegressor", X, "y", VECTORS | {"kernel_type": "RBF", "kernel_params": [0.3, 0.0, 3.0], "one_class": 1}),
    *(
        ("SVMClassifier", X, "y z", votes(counts) | {"kernel_type": kind, "kernel_params": [0.3, 0.2, 3.0]})
        for counts in ([2, 3], [1, 3, 2], [2, 1, 1, 3])
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    ("Scaler", X, "y", {"scale": [2.0], "offset": [0.3]}),
    ("Scaler", WHOLE, "y", {"scale": [2.0, 1.0, 3.0, 4.0], "offset": [0.3, 0.0, 0.0, 1.0]}),
    *(("Normalizer", np.concatenate([X, -np.abs(X), 0 * X]), "y", {"norm": name}) for name in ("MAX", "L1", "L2")),
    ("Imputer", HOLES, "y", {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": NAN}),
    ("Imputer", WHOLE, "y", {"imputed_value_int64s": [7], "replaced_value_int64": 3}),
    ("Binarizer", X, "y", {"threshold": 0.2}),
    ("OneHotEncoder", np.array([3, 5, 7]), "y", {"cats_int64s": [5, 3, 9], "zeros": 1}),
    ("OneHotEncoder", np.array([[3.0, 5.0], [9.0, 5.0]], np.float32), "y", {"cats_int64s": [5, 3, 9]}),
    ("LabelEncoder", WHOLE, "y", {"keys_int64s": [5, 3], "values_floats": [0.5, 0.25], "default_float": 9.0}),
    ("LabelEncoder", WHOLE, "y", {"keys_int64s": [5, 3], "values_int64s": [1, 2]}),
    ("LabelEncoder", WHOLE.astype(np.float32), "y", {"keys_floats": [5.0, 2.0], "values_int64s": [1, 2]}),
    ("FeatureVectorizer", X, "y", {"inputdimensions": [4]}),
]


@pytest.mark.parametrize(("op", "x", "outputs", "attributes"), CASES, ids=[case[0] for case in CASES])
def test_an_operator_computes_what_onnx_runtime_does(
    op: str, x: Any, outputs: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    proto = model([node(op, "x", outputs, domain="ai.onnx.ml", **attributes)], {"x": x}, outputs.split(), {})
    agrees(proto, {"x": x}, tmp_path)


@pytest.mark.parametrize(("x", "places"), [(X, [2, 0]), (X[0], [[2, 0]]), (X.reshape(1, 7, 4), [1])])
def test_features_are_chosen_along_the_last_axis(x: Any, places: Any, tmp_path: Path) -> None:
    made = node("ArrayFeatureExtractor", "x i", "y", domain="ai.onnx.ml")
    agrees(model([made], {"x": x}, ["y"], {"i": np.array(places)}), {"x": x}, tmp_path)


def test_a_category_that_is_not_listed_is_an_error_where_the_model_says_so(tmp_path: Path) -> None:
    made = node("OneHotEncoder", "x", "y", domain="ai.onnx.ml", cats_int64s=[5, 3, 9], zeros=0)
    x = np.array([3, 9, 5])
    proto = model([made], {"x": x}, ["y"], {})
    agrees(proto, {"x": x}, tmp_path)
    imported = load(saved(proto, tmp_path))
    with pytest.raises(ExecutionError, match="index 3"):
        run(imported, {"x": np.array([3, 7, 5])})


@pytest.mark.parametrize("threshold", [-1.5, -0.5, 0.0, 0.5, 2.0])
def test_integers_are_compared_with_the_threshold_and_not_with_what_is_left_of_it(
    threshold: float, tmp_path: Path
) -> None:
    whole = np.arange(-3, 4).reshape(1, 7)
    binarizer = node("Binarizer", "x", "y", domain="ai.onnx.ml", threshold=threshold)

    (result,) = run(load(saved(model([binarizer], {"x": whole}, ["y"], {}), tmp_path)), {"x": whole})

    assert result.tolist() == (whole > threshold).astype(int).tolist()


def test_a_map_of_scores_stays_a_row_of_scores(tmp_path: Path) -> None:
    made = node("ZipMap", "x", "y", domain="ai.onnx.ml", classlabels_int64s=[3, 5, 8, 9])
    imported = load(saved(model([made], {"x": X}, ["y"], {}), tmp_path))
    assert "is left out: its result is a row of scores, in order of 3, 5, 8, 9" in imported.report.notes[-1]
    np.testing.assert_array_equal(run(imported, {"x": X})[0], X)


@pytest.mark.parametrize("labels", [{"classlabels_int64s": [5, 3, 9, 8]}, {"classlabels_strings": list("dbca")}])
def test_rows_of_scores_agree_with_the_maps_of_the_original(labels: dict[str, Any], tmp_path: Path) -> None:
    path = saved(model([node("ZipMap", "x", "y", domain="ai.onnx.ml", **labels)], {"x": X}, ["y"], {}), tmp_path)

    report = verify(path, load(path), steps=1)

    assert (report.agrees, report.outputs["y"].largest, report.outputs["y"].shapes) == (True, 0.0, None)


@pytest.mark.parametrize(
    ("op", "attributes", "words"),
    [
        ("OneHotEncoder", {"cats_strings": ["a"]}, "categories that are strings"),
        ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "keys that are strings"),
        ("LinearClassifier", {"coefficients": reals(4), "classlabels_strings": ["a", "b"]}, "labels that are strings"),
        ("SVMClassifier", votes([1, 1]) | {"prob_a": [0.1], "prob_b": [0.2]}, "train with probability=False"),
        ("SVMClassifier", votes([1, 1]) | {"post_transform": "SOFTMAX"}, "post_transform=SOFTMAX of scores of pairs"),
        ("Normalizer", {"norm": "L7"}, "norm=L7, expected MAX, L1 or L2"),
    ],
)
def test_an_error_says_what_is_not_supported(op: str, attributes: dict[str, Any], words: str, tmp_path: Path) -> None:
    made = node(op, "x", "y", domain="ai.onnx.ml", **attributes)
    with pytest.raises(ModelImportError) as raised:
        load(saved(model([made], {"x": X}, ["y"], {}), tmp_path))
    assert words in str(raised.value)
