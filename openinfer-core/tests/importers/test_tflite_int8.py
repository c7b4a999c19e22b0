"""Quantised layers of TFLite models: integers throughout, with the bits that LiteRT's XNNPACK computes.

Expected values are computed here in exact integers and fractions, and compared with LiteRT where it is installed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from litert import litert
from tflite_models import holds, imported, model, of, op, run, saved

from openinfer import ModelImportError
from openinfer.plugins.environment import Environment

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(33)
IMAGE = (2, 7, 6, 3)
ONE = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
F32 = np.float32
X_ZERO, Y_ZERO = 5, -9


def codes(*shape: int) -> Any:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def to_even(value: Fraction) -> int:
    return round(value)


def requantised(total: int, scale: Any, zero: int, low: int = -128) -> int:
    """Return the sum in f32 times the scale in f32, rounded half to even, as a code."""
    product = float(F32(F32(total) * scale))
    return min(max(to_even(Fraction(product)) + zero, low), 127)


def convolved(
    x: Any, x_zero: int, w: Any, bias: Any, scale: Any, zero: int, stride: int, *, same: bool, deep: bool
) -> Any:
    """Return a convolution with channels last, in Python's integers."""
    count, rows, columns, channels = x.shape
    height, width = w.shape[1:3]
    if same:
        shape = math.ceil(rows / stride), math.ceil(columns / stride)
        before = [
            max((many - 1) * stride + kernel - extent, 0) // 2
            for many, kernel, extent in zip(shape, (height, width), (rows, columns), strict=True)
        ]
    else:
        shape, before = ((rows - height) // stride + 1, (columns - width) // stride + 1), [0, 0]
    outs = w.shape[3] if deep else w.shape[0]
    made = np.zeros((count, *shape, outs), np.int8)
    for n, i, j, o in np.ndindex(*made.shape):
        total = int(bias[o])
        for di, dj in np.ndindex(height, width):
            y, z = i * stride + di - before[0], j * stride + dj - before[1]
            if not (0 <= y < rows and 0 <= z < columns):
                continue
            if deep:
                total += (int(x[n, y, z, o * channels // outs]) - X_ZERO) * int(w[0, di, dj, o])
            else:
                total += sum((int(x[n, y, z, c]) - X_ZERO) * int(w[o, di, dj, c]) for c in range(channels))
        made[n, i, j, o] = requantised(total, scale[o], Y_ZERO)
    return made


@pytest.mark.parametrize("deep", [False, True], ids=["conv", "depthwise"])
@pytest.mark.parametrize(("padding", "stride"), [(0, 2), (1, 1)])
def test_convolutions_have_the_bits_of_litert(deep: bool, padding: int, stride: int, tmp_path: Path) -> None:
    x, outs = codes(*IMAGE), 6 if deep else 4
    w = RNG.integers(-127, 128, (1, 3, 2, outs) if deep else (outs, 3, 2, 3)).astype(np.int8)
    bias = RNG.integers(-2000, 2000, outs).astype(np.int32)
    x_scale, y_scale, w_scales = (
        F32(0.037),
        F32(0.61 if not deep else 0.3),
        (RNG.random(outs) * 0.02 + 0.01).astype(F32),
    )
    expected = convolved(x, 5, w, bias, x_scale * w_scales / y_scale, -9, stride, same=not padding, deep=deep)
    options = ONE | {"StrideW": stride, "StrideH": stride, "Padding": padding}
    kind, layer = ("DepthwiseConv2DOptions", "DEPTHWISE_CONV_2D") if deep else ("Conv2DOptions", "CONV_2D")
    options |= {"DepthMultiplier": 2} if deep else {}
    tensors = [
        of("x", IMAGE, np.int8, x_scale, X_ZERO),
        holds("w", w, w_scales, axis=3 if deep else 0),
        holds("b", bias, x_scale * w_scales),
        of("y", expected.shape, np.int8, y_scale, Y_ZERO),
    ]
    data = model(tensors, [op(layer, "x w b", "y", kind, **options)], "x", "y")
    program = imported(data, tmp_path)
    assert "f32[2" not in program.text.partition("block")[0]
    np.testing.assert_array_equal(run(program, x=x)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), x=x)[0], expected)


@pytest.mark.parametrize("activation", [0, 1, 3])
def test_dense_layers_have_the_bits_of_litert(activation: int, tmp_path: Path) -> None:
    x, w = codes(5, 16), RNG.integers(-127, 128, (8, 16)).astype(np.int8)
    bias = RNG.integers(-2000, 2000, 8).astype(np.int32)
    x_scale, w_scale, y_scale, zero = F32(0.05), F32(0.013), F32(0.11), -20
    low = -128 if not activation else zero
    high = min(127, zero + to_even(Fraction(float(F32(6) / y_scale)))) if activation == 3 else 127
    scale = x_scale * w_scale / y_scale
    total = (x.astype(int) - 3) @ w.astype(int).T + bias
    expected = np.array([[min(requantised(int(t), scale, zero, low), high) for t in row] for row in total], np.int8)
    tensors = [
        of("x", [5, 16], np.int8, x_scale, 3),
        holds("w", w, w_scale),
        holds("b", bias, x_scale * w_scale),
        of("y", [5, 8], np.int8, y_scale, zero),
    ]
    layer = op("FULLY_CONNECTED", "x w b", "y", "FullyConnectedOptions", FusedActivationFunction=activation)
    data = model(tensors, [layer], "x", "y")
    np.testing.assert_array_equal(run(imported(data, tmp_path), x=x)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), x=x)[0], expected)


def of_two(kind: str, options: str, b_shape: tuple[int, ...], tmp_path: Path, **fields: Any) -> tuple[Any, ...]:
    """Return a model of an operator of two inputs, and inputs for it."""
    tensors = [
        of("a", IMAGE, np.int8, 0.4, 4),
        of("b", b_shape, np.int8, 0.09, -7),
        of("y", IMAGE, np.int8, 0.5, 2),
    ]
    data = model(tensors, [op(kind, "a b", "y", options, **fields)], "a b", "y")
    return data, {"a": codes(*IMAGE), "b": codes(*b_shape)}


@pytest.mark.parametrize("b_shape", [IMAGE, (3,), (1, 1, 1, 3)])
@pytest.mark.parametrize(("kind", "sign"), [("ADD", 1), ("SUB", -1)])
def test_sums_are_integers_of_one_shift(kind: str, sign: int, b_shape: tuple[int, ...], tmp_path: Path) -> None:
    data, inputs = of_two(kind, f"{kind.capitalize()}Options", b_shape, tmp_path)
    program = imported(data, tmp_path)
    # XNNPACK: the greater ratio of scales has 21 bits.
    first, second = F32(0.4) / F32(0.5), F32(0.09) / F32(0.5)
    shift = 20 - math.floor(math.log2(first))
    factors = [to_even(Fraction(float(ratio)) * 2**shift) for ratio in (first, second)]
    a, b = inputs["a"].astype(int) - 4, inputs["b"].astype(int) + 7
    total = (a * factors[0] + sign * b * factors[1] + (1 << (shift - 1))) >> shift
    expected = np.clip(total + 2, -128, 127)
    assert "f32" not in program.text
    np.testing.assert_array_equal(run(program, **inputs)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), **inputs)[0], expected)


def test_a_product_is_scaled_once(tmp_path: Path) -> None:
    data, inputs = of_two("MUL", "MulOptions", IMAGE, tmp_path)
    scale = F32(0.4) * F32(0.09) / F32(0.5)
    total = (inputs["a"].astype(int) - 4) * (inputs["b"].astype(int) + 7)
    expected = np.vectorize(lambda t: requantised(int(t), scale, 2))(total)
    np.testing.assert_array_equal(run(imported(data, tmp_path), **inputs)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), **inputs)[0], expected)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("kernel", [(3, 2), (7, 6)])
@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools_are_integers(kind: str, kernel: tuple[int, int], padding: int, tmp_path: Path) -> None:
    x = codes(*IMAGE)
    stride = 2
    sizes = list(zip(IMAGE[1:3], kernel, strict=True))
    shape = [(n - k) // stride + 1 if padding else math.ceil(n / stride) for n, k in sizes]
    margins = [(many - 1) * stride + k - n for many, (n, k) in zip(shape, sizes, strict=True)]
    before = [0 if padding else max(margin, 0) // 2 for margin in margins]
    expected = np.zeros((IMAGE[0], *shape, IMAGE[3]), np.int8)
    for n, i, j, c in np.ndindex(*expected.shape):
        top, left = i * stride - before[0], j * stride - before[1]
        window = x[n, max(top, 0) : top + kernel[0], max(left, 0) : left + kernel[1], c].astype(int)
        total = int(window.sum())
        half = window.size // 2
        mean = (total + half) // window.size if total > 0 else -((half - total) // window.size)
        expected[n, i, j, c] = window.max() if kind == "MAX_POOL_2D" else mean
    fields = {"StrideW": stride, "StrideH": stride, "FilterHeight": kernel[0], "FilterWidth": kernel[1]}
    tensors = [of("x", IMAGE, np.int8, 0.5, 3), of("y", expected.shape, np.int8, 0.5, 3)]
    data = model(tensors, [op(kind, "x", "y", "Pool2DOptions", Padding=padding, **fields)], "x", "y")
    program = imported(data, tmp_path)
    assert "f32" not in program.text
    np.testing.assert_array_equal(run(program, x=x)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), x=x)[0], expected)


def test_layers_one_after_the_other_need_no_transposition(tmp_path: Path) -> None:
    shape = (1, 6, 6, 4)
    tensors = [of(name, shape, np.int8, 0.5, 1) for name in "xhigy"]
    w = holds("w", codes(4, 3, 3, 4), 0.01)
    layer = op("CONV_2D", "x w -", "h", "Conv2DOptions", **ONE)
    second = op("CONV_2D", "g w -", "y", "Conv2DOptions", **ONE)
    operators = [layer, op("ADD", "h h", "i", "AddOptions"), op("RELU", "i", "g"), second]
    text = imported(model([*tensors, w], operators, "x", "y"), tmp_path).text
    assert text.count("op transpose(") == 2


def test_softmax_reads_powers_from_a_table(tmp_path: Path) -> None:
    x = codes(4, 10)
    tensors = [of("x", [4, 10], np.int8, 0.1, 3), of("y", [4, 10], np.int8, 1 / 256, -128)]
    data = model(tensors, [op("SOFTMAX", "x", "y", "SoftmaxOptions", Beta=1.0)], "x", "y")
    found = run(imported(data, tmp_path), x=x)[0].astype(int)
    exact = np.exp(F32(0.1) * x.astype(np.float64))
    expected = np.clip(np.rint(exact / exact.sum(axis=-1, keepdims=True) * 256) - 128, -128, 127)
    assert abs(found - expected).max() <= 1
    assert abs(found - litert(saved(data, tmp_path), x=x)[0]).max() <= 1


def test_scales_beyond_what_a_sum_holds_are_refused(tmp_path: Path) -> None:
    tensors = [of("a", [4], np.int8, 1000.0), of("b", [4], np.int8, 0.1), of("y", [4], np.int8, 0.1)]
    data = model(tensors, [op("ADD", "a b", "y", "AddOptions")], "a b", "y")
    with pytest.raises(ModelImportError, match=r"1e\+04 of the result's, expected 2\^-10 to 2\^8"):
        imported(data, tmp_path)
