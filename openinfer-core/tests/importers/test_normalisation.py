"""Normalisations keep what large means leave of small deviations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_models import info, model, node, run, saved

from openinfer.importers import load
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(30)


def standardised(x: Any, axes: tuple[int, ...]) -> Any:
    """Return (x - mean) / deviation, in f64."""
    centred = x.astype(np.float64) - x.mean(axes, np.float64, keepdims=True)
    return centred / (np.sqrt((centred**2).mean(axes, keepdims=True)) + 1e-9)


@pytest.mark.parametrize("mean", [0.0, 30.0, -1000.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("attributes", [{}, {"axes": [2]}, {"axes": [-1, 0]}])
def test_a_variance_does_not_cancel_where_the_mean_is_large(
    attributes: dict[str, Any], dtype: Any, mean: float, tmp_path: Path
) -> None:
    x = (RNG.standard_normal((2, 3, 8, 8)) + mean).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [node("MeanVarianceNormalization", "x", "y", **attributes)]
    path = saved(model(nodes, [info("x", x.shape, kind)], [info("y", x.shape, kind)]), tmp_path)

    (y,) = run(load(path), {"x": x})

    assert y.dtype == x.dtype
    wanted = standardised(x, tuple(attributes.get("axes", (0, 2, 3))))
    # The mean is off by some units in the last place of what is summed, which f16 leaves to f32.
    error = 16 * np.finfo(np.float32 if dtype is np.float16 else dtype).eps * (1 + abs(mean))
    np.testing.assert_allclose(y, wanted, rtol=np.finfo(dtype).eps, atol=error)


@pytest.mark.parametrize("number", [0.0, 5.0, 1e4])
def test_equal_elements_have_no_deviation(number: float, tmp_path: Path) -> None:
    x = np.full((1, 2, 3, 3), number, np.float32)
    nodes = [node("MeanVarianceNormalization", "x", "y")]
    path = saved(model(nodes, [info("x", x.shape)], [info("y", x.shape)]), tmp_path)

    (y,) = run(load(path), {"x": x})

    np.testing.assert_array_equal(y, np.zeros_like(x))
