"""Normalisation: fused kernels against the compositions that define them, and both against ONNX."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.ops.schema import OpTypeError
from openinfer_backend_cpu.kernels import gelu, normalisation


def noise(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 2 + 0.5).astype(dtype)


FUSED = {
    "softmax": [(4, 9)],
    "log_softmax": [(4, 9)],
    "layer_norm": [(3, 4, 5), (5,), (4, 5)],
    "rms_norm": [(3, 4, 5), (1, 5)],
}


@pytest.mark.rule("operators.definitions.3")
@pytest.mark.parametrize("axis", [-1, -2, 0])
@pytest.mark.parametrize("op", FUSED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_a_fused_kernel_agrees_with_the_composition(run_operator, op: str, axis: int, dtype: Any) -> None:
    shapes = FUSED[op]
    inputs = [noise(*shape, seed=n, dtype=dtype) for n, shape in enumerate(shapes)]
    if len(shapes) > 1 and axis == -1:
        inputs[-1] = inputs[-1][..., :1, :].reshape(-1)
    settings = {"axis": axis}
    (fused,) = run_operator(op, inputs, **settings)
    (composed,) = run_operator(op, inputs, without_kernels=list(FUSED), **settings)
    tolerance = {2: 2e-2, 4: 1e-5, 8: 1e-12}[fused.dtype.itemsize]
    np.testing.assert_allclose(fused.astype(np.float64), composed.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "layer_norm", "rms_norm"])
def test_rows_in_several_blocks_are_rows_in_one(run_operator, monkeypatch, op: str) -> None:
    x = noise(11, 13)
    whole = run_operator(op, [x])[0]
    monkeypatch.setattr(normalisation, "BLOCK", 3 * 13 * 4)
    np.testing.assert_array_equal(run_operator(op, [x])[0], whole)


@pytest.mark.parametrize("length", [8191, 20000])
def test_squares_of_long_rows_are_summed_well(run_operator, length: int) -> None:
    x = noise(2, length)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run_operator("rms_norm", [x])[0], expected, rtol=1e-5, atol=1e-6)


def test_softmax_of_large_numbers_does_not_overflow(run_operator) -> None:
    x = np.array([[1e4, 1e4 - 1.0, -1e30]], np.float32)
    e = math.exp(-1.0)
    assert run_operator("softmax", [x])[0].tolist()[0] == pytest.approx([1 / (1 + e), e / (1 + e), 0.0], rel=1e-6)


def test_softmax_of_nothing_but_minus_infinity_is_nan(run_operator) -> None:
    assert np.isnan(run_operator("softmax", [np.full((1, 3), -np.inf, np.float32)])[0]).all()


def test_layer_norm_keeps_the_type_of_x_and_computes_in_the_widest(run_operator) -> None:
    x, scale = noise(2, 64, dtype=np.float16), noise(64, seed=1)
    (y,) = run_operator("layer_norm", [x, scale, None])
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * scale
    assert y.dtype == np.float16
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm_agrees_with_onnx(run_operator, onnx_reference, axis: int) -> None:
    row = (4, 5)[axis if axis < 0 else axis - 1 :]
    x, scale, bias = noise(3, 4, 5), noise(*row, seed=1), noise(*row, seed=2)
    expected = onnx_reference("LayerNormalization", {"x": x, "s": scale, "b": bias}, axis=axis, epsilon=1e-3)[0]
    found = run_operator("layer_norm", [x, scale, bias], axis=axis, epsilon=1e-3)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_rms_norm_agrees_with_onnx(run_operator, onnx_reference) -> None:
    x, scale = noise(3, 4, 5), noise(5, seed=1)
    expected = onnx_reference("RMSNormalization", {"x": x, "s": scale}, axis=-1, epsilon=1e-3)[0]
    np.testing.assert_allclose(run_operator("rms_norm", [x, scale], eps=1e-3)[0], expected, rtol=1e-4, atol=1e-5)


def test_batch_norm_agrees_with_onnx(run_operator, onnx_reference) -> None:
    x, scale, bias, mean = noise(2, 3, 4, 5), noise(3, seed=1), noise(3, seed=2), noise(3, seed=3)
    variance = np.abs(noise(3, seed=4))
    given = {"x": x, "s": scale, "b": bias, "m": mean, "v": variance}
    expected = onnx_reference("BatchNormalization", given, opset=15)[0]
    found = run_operator("batch_norm", [x, scale, bias, mean, variance])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_group_norm_agrees_with_onnx(run_operator, onnx_reference) -> None:
    x, scale, bias = noise(2, 6, 4, 5), noise(6, seed=1), noise(6, seed=2)
    given = {"x": x, "s": scale, "b": bias}
    expected = onnx_reference("GroupNormalization", given, opset=21, num_groups=3)[0]
    found = run_operator("group_norm", [x, scale, bias], groups=3)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_instance_norm_agrees_with_onnx(run_operator, onnx_reference) -> None:
    x, scale, bias = noise(2, 3, 4, 5), noise(3, seed=1), noise(3, seed=2)
    expected = onnx_reference("InstanceNormalization", {"x": x, "s": scale, "b": bias})[0]
    np.testing.assert_allclose(run_operator("instance_norm", [x, scale, bias])[0], expected, rtol=1e-4, atol=1e-5)


def test_l2_norm_agrees_with_onnx_and_leaves_zeros(run_operator, onnx_reference) -> None:
    x = noise(3, 5)
    x[1] = 0
    expected = onnx_reference("LpNormalization", {"x": x}, axis=1, p=2)[0]
    found = run_operator("l2_norm", [x], axis=1)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found[1].tolist() == [0.0] * 5


@pytest.mark.parametrize(
    ("op", "shapes", "settings", "said"),
    [
        ("layer_norm", [(2, 4), (3,)], {}, r"scale is f32\[3\].*broadcasts to a row of f32\[2,4\]: \[4\]"),
        ("rms_norm", [(2, 4), (2, 4)], {}, r"scale is f32\[2,4\]"),
        ("layer_norm", [(2, 4)], {"axis": 2}, r"axis 2 is out of range"),
        (
            "batch_norm",
            [(2, 3, 4), (3,), (3,), (3,), (4,)],
            {},
            r"found f32\[4\], expected one element per channel of x f32\[2,3,4\]",
        ),
        ("group_norm", [(2, 6, 4), (6,), (6,)], {"groups": 4}, r"groups is 4: expected a divisor of the 6 channels"),
        ("group_norm", [(6,), (6,), (6,)], {"groups": 2}, r"at least two dims"),
    ],
)
def test_what_does_not_fit_is_refused(run_operator, op: str, shapes: Any, settings: Any, said: str) -> None:
    with pytest.raises(OpTypeError, match=said):
        run_operator(op, [noise(*shape) for shape in shapes], **settings)


def test_gelu_in_single_precision_is_near_the_exact_one(run_operator) -> None:
    x = np.concatenate([np.linspace(-7, 7, 20_001), np.logspace(-30, 0, 1000), [-1e30, 1e30]]).astype(np.float32)
    (found,) = run_operator("gelu", [x])
    exact = [value * 0.5 * math.erfc(-value / math.sqrt(2)) for value in x.tolist()]
    assert (np.abs(found - np.array(exact)) <= 4 * np.spacing(np.maximum(np.abs(x), 1e-3))).all()


def test_gelu_beyond_its_limit_is_exact(run_operator) -> None:
    beyond = np.array([gelu.LIMIT, 6.0, 1e30, np.inf], np.float32)
    assert run_operator("gelu", [beyond])[0].tolist() == beyond.tolist()
    assert run_operator("gelu", [-beyond[:3]])[0].tolist() == [0.0] * 3


def test_gelu_in_blocks_is_gelu_in_one(run_operator, monkeypatch) -> None:
    x = noise(1000)
    whole = run_operator("gelu", [x])[0]
    monkeypatch.setattr(gelu, "BLOCK", 64)
    np.testing.assert_array_equal(run_operator("gelu", [x])[0], whole)
