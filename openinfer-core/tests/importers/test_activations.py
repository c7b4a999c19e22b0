"""Activations keep the formulas of ONNX where their attributes have unusual signs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import info, model, node, run, saved, weights

from openinfer import ModelImportError
from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

X = np.array([-math.inf, -100, -3, -1, -0.5, -0.0, 0.0, 0.3, 1, 2.5, 100, math.inf, math.nan], np.float32)
SIGNS = (-2.0, -0.5, 0.5, 2.0)


def celu(x: Any, alpha: float) -> Any:
    return np.maximum(0, x) + np.minimum(0, alpha * np.expm1(x / alpha))


def elu(x: Any, alpha: float) -> Any:
    return np.where(x < 0, alpha * np.expm1(x), x)


def leaky_relu(x: Any, alpha: float) -> Any:
    return np.where(x < 0, alpha * x, x)


def thresholded_relu(x: Any, alpha: float) -> Any:
    return np.where(x > alpha, x, 0)


def selu(x: Any, alpha: float, gamma: float) -> Any:
    return gamma * np.where(x > 0, x, alpha * np.expm1(x))


def shrink(x: Any, lambd: float, bias: float) -> Any:
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))


def hard_sigmoid(x: Any, alpha: float, beta: float) -> Any:
    return np.maximum(0, np.minimum(1, alpha * x + beta))


OF_ONE = {"Celu": celu, "Elu": elu, "LeakyRelu": leaky_relu, "ThresholdedRelu": thresholded_relu}
OF_TWO = {
    "Selu": (selu, ("alpha", "gamma")),
    "Shrink": (shrink, ("lambd", "bias")),
    "HardSigmoid": (hard_sigmoid, ("alpha", "beta")),
}
CASES = [
    *((op, {"alpha": alpha}, formula) for op, formula in OF_ONE.items() for alpha in SIGNS),
    *(
        (op, dict(zip(names, (first, second), strict=True)), formula)
        for op, (formula, names) in OF_TWO.items()
        for first in SIGNS
        for second in (-1.0, 0.7)
    ),
]


@pytest.mark.parametrize(("op", "attributes", "formula"), CASES)
def test_an_activation_is_its_formula_whatever_the_signs(
    op: str, attributes: dict[str, float], formula: Callable[..., Any], tmp_path: Path
) -> None:
    path = saved(model([node(op, "x", "y", **attributes)], [info("x", [X.size])], [info("y", None)]), tmp_path)
    with np.errstate(all="ignore"):
        wanted = formula(X.astype(np.float64), **attributes).astype(np.float32)
    np.testing.assert_allclose(run(load(path), {"x": X})[0], wanted, rtol=2e-6, atol=1e-7)


def test_celu_without_an_alpha_is_an_error(tmp_path: Path) -> None:
    path = saved(model([node("Celu", "x", "y", alpha=0.0)], [info("x", [3])], [info("y", None)]), tmp_path)
    with pytest.raises(ModelImportError, match="alpha=0, by which x is divided"):
        load(path)


@pytest.mark.parametrize(("low", "high"), [(2.0, -1.0), (0.5, 0.0), (-0.5, -2.0), (math.inf, -math.inf)])
def test_bounds_that_cross_leave_the_upper_one(low: float, high: float, tmp_path: Path) -> None:
    bounds = weights(low=np.float32(low), high=np.float32(high))
    path = saved(model([node("Clip", "x low high", "y")], [info("x", [X.size])], [info("y", None)], bounds), tmp_path)
    y = run(load(path), {"x": X})[0]
    np.testing.assert_array_equal(y, np.where(np.isnan(X), X, np.float32(high)))


@pytest.mark.parametrize("slope", SIGNS)
def test_slopes_of_prelu_may_be_negative(slope: float, tmp_path: Path) -> None:
    slopes = weights(s=np.float32([slope]))
    path = saved(model([node("PRelu", "x s", "y")], [info("x", [X.size])], [info("y", None)], slopes), tmp_path)
    np.testing.assert_array_equal(run(load(path), {"x": X})[0], leaky_relu(X, np.float32(slope)))


def test_celu_is_x_where_the_quotient_by_alpha_overflows(tmp_path: Path) -> None:
    path = saved(model([node("Celu", "x", "y", alpha=1e-30)], [info("x", [2])], [info("y", None)]), tmp_path)
    x = np.array([1e10, -1e10], np.float32)
    np.testing.assert_allclose(run(load(path), {"x": x})[0], [1e10, -1e-30])


NEAR_ZERO = [sign * 10.0**-power for power in (1, 2, 3, 5, 7, 10) for sign in (1, -1)]

CANCELLING: dict[str, tuple[dict[str, float], Callable[[float], float]]] = {
    "Celu": ({"alpha": -2.0}, lambda x: x if x > 0 else -2 * math.expm1(x / -2)),
    "Elu": ({"alpha": 0.5}, lambda x: x if x > 0 else 0.5 * math.expm1(x)),
    "Selu": ({"alpha": 2.0, "gamma": 0.5}, lambda x: x / 2 if x > 0 else math.expm1(x)),
    "Softplus": ({}, lambda x: math.log1p(math.exp(x))),
    "Mish": ({}, lambda x: x * math.tanh(math.log1p(math.exp(x)))),
    "Tanh": ({}, math.tanh),
}


@pytest.mark.parametrize("op", CANCELLING)
def test_nothing_cancels_near_zero(op: str, tmp_path: Path) -> None:
    attributes, exact = CANCELLING[op]
    x = np.array(NEAR_ZERO, np.float32)
    proto = model([node(op, "x", "y", **attributes)], [info("x", [x.size])], [info("y", None)], opset=18)

    (found,) = run(load(saved(proto, tmp_path)), {"x": x})

    np.testing.assert_allclose(found, [exact(float(value)) for value in x], rtol=4e-7)


def test_celu_of_a_negative_alpha_has_its_limits(tmp_path: Path) -> None:
    proto = model([node("Celu", "x", "y", alpha=-1.0)], [info("x", [5])], [info("y", None)])
    x = np.array([-math.inf, -200.0, 0.0, 3.0, math.nan], np.float32)

    (found,) = run(load(saved(proto, tmp_path)), {"x": x})

    np.testing.assert_array_equal(found, np.array([-math.inf, -math.inf, 0.0, 3.0, math.nan], np.float32))
