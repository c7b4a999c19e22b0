"""Codes in fixed point: the bits of TFLite Micro, with two roundings or with one, and layers of 16-bit integers.

Expected values are computed in Python's integers, as gemmlowp and TensorFlow Lite are written, and compared with TFLite
Micro where it is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fixed_point_codes import code, multiplier_of
from litert import litert
from tflite_micro_runs import check_against_micro
from tflite_models import Operator, Tensor, holds, imported, model, of, op, run, saved

from openinfer import ModelImportError
from openinfer.cli.commands.import_ import command
from openinfer.importers import load
from openinfer.plugins.environment import Environment
from openinfer.testing.oracles.requantisation import scaled

pytestmark = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")

RNG = np.random.default_rng(31)
F32, I8, I16 = np.float32, np.int8, np.int16
IMAGE = (1, 4, 4, 3)
ONE = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1, "Padding": 1}
MODES = ("fixed", "tflite")


def codes(dtype: Any, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)


def compared(
    tensors: list[Tensor],
    operator: Operator,
    inputs: dict[str, Any],
    expected: Callable[[str], Any],
    modes: tuple[str, ...],
    tmp_path: Path,
) -> None:
    data = model(tensors, [operator], " ".join(inputs), "y")
    for mode in modes:
        program = imported(data, tmp_path, requantize=mode)
        assert "op requantize(" in program.text
        np.testing.assert_array_equal(run(program, **inputs)[0], expected(mode), err_msg=mode)
    check_against_micro(saved(data, tmp_path), expected("tflite"), **inputs)


@pytest.mark.rule("operators.quantisation.4")
@pytest.mark.parametrize("deep", [False, True], ids=["conv", "depthwise"])
@pytest.mark.parametrize("dtype", [I8, I16])
def test_convolutions(dtype: Any, deep: bool, tmp_path: Path) -> None:
    x, outs, bits = codes(dtype, *IMAGE), 3, 32 if dtype is I8 else 64
    w = RNG.integers(-127, 128, (1, 2, 2, 3) if deep else (outs, 2, 2, 3)).astype(I8)
    zero, y_zero = (5, -9) if dtype is I8 else (0, 0)
    bias = RNG.integers(-2000, 2000, outs).astype(np.int32 if dtype is I8 else np.int64)
    x_scale, y_scale = (F32(0.037), F32(0.61)) if dtype is I8 else (F32(1e-4), F32(5e-4))
    w_scales = (RNG.random(outs) * 0.02 + 0.01).astype(F32)

    def expected(mode: str) -> Any:
        made = np.zeros((1, 3, 3, outs), dtype)
        for i, j, o in np.ndindex(3, 3, outs):
            window = x[0, i : i + 2, j : j + 2].astype(int) - zero
            total = int((window[..., o] * w[0, ..., o]).sum() if deep else (window * w[o]).sum()) + int(bias[o])
            factor = float(x_scale) * float(w_scales[o]) / float(y_scale)
            made[0, i, j, o] = code(total, factor, y_zero, mode, dtype, bits)
        return made

    tensors = [
        of("x", IMAGE, dtype, x_scale, zero),
        holds("w", w, w_scales, axis=3 if deep else 0),
        holds("b", bias, x_scale * w_scales),
        of("y", (1, 3, 3, outs), dtype, y_scale, y_zero),
    ]
    kind, layer = ("DepthwiseConv2DOptions", "DEPTHWISE_CONV_2D") if deep else ("Conv2DOptions", "CONV_2D")
    options = ONE | ({"DepthMultiplier": 1} if deep else {})
    compared(tensors, op(layer, "x w b", "y", kind, **options), {"x": x}, expected, MODES, tmp_path)


@pytest.mark.parametrize(("dtype", "padding", "stride"), [(I8, 0, 1), (I8, 0, 2), (I8, 1, 3), (I16, 1, 2)])
def test_transposed_convolutions(dtype: Any, padding: int, stride: int, tmp_path: Path) -> None:
    x, outs, bits = codes(dtype, *IMAGE), 2, 32 if dtype is I8 else 64
    w = RNG.integers(-127, 128, (outs, 3, 3, 3)).astype(I8)
    bias = RNG.integers(-2000, 2000, outs).astype(np.int32 if dtype is I8 else np.int64)
    zero, (x_scale, y_scale) = (5, (F32(0.037), F32(0.61))) if dtype is I8 else (0, (F32(1e-4), F32(5e-4)))
    w_scales = (RNG.random(outs) * 0.02 + 0.01).astype(F32)
    whole = np.zeros((1, 3 * stride + 3, 3 * stride + 3, outs), int)
    for i, j, a, b in np.ndindex(4, 4, 3, 3):
        whole[0, i * stride + a, j * stride + b] += (x[0, i, j].astype(int) - zero) @ w[:, a, b].astype(int).T
    cut = 0 if padding else max(3 - stride, 0)
    first, size = cut // 2, whole.shape[1] - cut
    totals = whole[:, first : first + size, first : first + size] + bias
    factors = [float(x_scale) * float(scale) / float(y_scale) for scale in w_scales]

    def expected(mode: str) -> Any:
        made = [
            [code(int(total), factor, zero, mode, dtype, bits) for total, factor in zip(row, factors, strict=True)]
            for row in totals.reshape(-1, outs)
        ]
        return np.array(made).reshape(totals.shape)

    tensors = [
        holds("shape", np.array(totals.shape, np.int32)),
        of("x", IMAGE, dtype, x_scale, zero),
        holds("w", w, w_scales),
        holds("b", bias, x_scale * w_scales),
        of("y", totals.shape, dtype, y_scale, zero),
    ]
    options = {"StrideW": stride, "StrideH": stride, "Padding": padding}
    layer = op("TRANSPOSE_CONV", "shape w x b", "y", "TransposeConvOptions", **options)
    compared(tensors, layer, {"x": x}, expected, MODES, tmp_path)
    if dtype is I8:
        data = model(tensors, [layer], "x", "y")
        np.testing.assert_array_equal(run(imported(data, tmp_path), x=x)[0], litert(saved(data, tmp_path), x=x)[0])


def test_products_of_matrices(tmp_path: Path) -> None:
    a, b = codes(I8, 2, 3, 5), codes(I8, 2, 4, 5)
    total = (a.astype(int) - 4) @ (b.astype(int) + 9).swapaxes(1, 2)
    factor = float(F32(1e-2) * F32(7e-3)) / float(F32(2e-2))

    def expected(mode: str) -> Any:
        return np.vectorize(lambda t: code(int(t), factor, 11, mode))(total)

    tensors = [
        of("a", [2, 3, 5], I8, 1e-2, 4),
        of("b", [2, 4, 5], I8, 7e-3, -9),
        of("y", [2, 3, 4], I8, 2e-2, 11),
    ]
    layer = op("BATCH_MATMUL", "a b", "y", "BatchMatMulOptions", AdjY=True)
    compared(tensors, layer, {"a": a, "b": b}, expected, MODES, tmp_path)


@pytest.mark.parametrize("padding", [0, 1])
def test_pools_of_16_bits(padding: int, tmp_path: Path) -> None:
    x = codes(I16, *IMAGE)
    window = {"StrideW": 2, "StrideH": 2, "FilterHeight": 3, "FilterWidth": 3, "Padding": padding}
    extent = 1 if padding else 2
    expected = np.zeros((1, extent, extent, 3), int)
    for i, j, c in np.ndindex(extent, extent, 3):
        part = x[0, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3, c].astype(int)
        total, half = int(part.sum()), part.size // 2
        expected[0, i, j, c] = (total + half) // part.size if total > 0 else -((half - total) // part.size)
    tensors = [of("x", IMAGE, I16, 1e-4), of("y", expected.shape, I16, 1e-4)]
    data = model(tensors, [op("AVERAGE_POOL_2D", "x", "y", "Pool2DOptions", **window)], "x", "y")
    np.testing.assert_array_equal(run(imported(data, tmp_path), x=x)[0], expected)
    np.testing.assert_array_equal(litert(saved(data, tmp_path), x=x)[0], expected)


def test_softmax_of_16_bits_is_computed_in_reals(tmp_path: Path) -> None:
    x = codes(I16, 4, 10)
    tensors = [of("x", [4, 10], I16, 1e-4), of("y", [4, 10], I16, 1 / 32768)]
    data = model(tensors, [op("SOFTMAX", "x", "y", "SoftmaxOptions", Beta=1.0)], "x", "y")
    found = run(imported(data, tmp_path), x=x)[0]
    powers = np.exp(x * 1e-4)
    np.testing.assert_allclose(found, powers / powers.sum(-1, keepdims=True) * 32768, atol=1)
    # TFLite reads tables of 513 powers.
    np.testing.assert_allclose(found, litert(saved(data, tmp_path), x=x)[0], atol=8)


@pytest.mark.parametrize("dtype", [I8, I16])
def test_dense_layers(dtype: Any, tmp_path: Path) -> None:
    x, w, bits = codes(dtype, 3, 600), RNG.integers(-127, 128, (4, 600)).astype(I8), 32 if dtype is I8 else 64
    bias = RNG.integers(-2000, 2000, 4).astype(np.int32 if dtype is I8 else np.int64)
    zero, (x_scale, y_scale) = (3, (F32(0.05), F32(0.9))) if dtype is I8 else (0, (F32(1e-4), F32(2e-3)))
    total = (x.astype(int) - zero) @ w.astype(int).T + bias
    factor = float(x_scale) * float(F32(0.013)) / float(y_scale)

    def expected(mode: str) -> Any:
        return np.vectorize(lambda t: code(int(t), factor, zero, mode, dtype, bits))(total)

    tensors = [
        of("x", [3, 600], dtype, x_scale, zero),
        holds("w", w, 0.013),
        holds("b", bias, float(x_scale) * 0.013),
        of("y", [3, 4], dtype, y_scale, zero),
    ]
    layer = op("FULLY_CONNECTED", "x w b", "y", "FullyConnectedOptions")
    compared(tensors, layer, {"x": x}, expected, MODES, tmp_path)


@pytest.mark.parametrize("dtype", [I8, I16])
@pytest.mark.parametrize(("kind", "sign"), [("ADD", 1), ("SUB", -1)])
def test_sums(kind: str, sign: int, dtype: Any, tmp_path: Path) -> None:
    unit, zeros, bits = (F32(1e-2), (4, -9, 11), 20) if dtype is I8 else (F32(1e-4), (0, 0, 0), 15)
    scales = [unit, unit * F32(0.7), unit * F32(1.7)]
    a, b = codes(dtype, *IMAGE), codes(dtype, *IMAGE)
    largest = 2 * float(max(scales[:2]))

    def one(mode: str, pair: tuple[int, int]) -> int:
        terms = [
            scaled((x - zero) << bits, *multiplier_of(float(scale) / largest), mode)
            for x, zero, scale in zip(pair, zeros, scales, strict=False)
        ]
        total = terms[0] + sign * terms[1]
        return code(total, largest / ((1 << bits) * float(scales[2])), zeros[2], mode, dtype)

    def expected(mode: str) -> Any:
        return np.array([one(mode, (int(x), int(y))) for x, y in zip(a.flat, b.flat, strict=True)]).reshape(IMAGE)

    tensors = [of(name, IMAGE, dtype, *pair) for name, *pair in zip("aby", scales, zeros, strict=True)]
    layer = op(kind, "a b", "y", f"{kind.capitalize()}Options")
    compared(tensors, layer, {"a": a, "b": b}, expected, MODES, tmp_path)


@pytest.mark.parametrize("dtype", [I8, I16])
def test_products(dtype: Any, tmp_path: Path) -> None:
    a, b = codes(dtype, *IMAGE), codes(dtype, *IMAGE)
    scales = [F32(1e-2), F32(7e-3), F32(1e-2)] if dtype is I8 else [F32(1e-4), F32(7e-5), F32(4e-4)]
    zeros = (4, -9, 11) if dtype is I8 else (0, 0, 0)
    factor = float(scales[0]) * float(scales[1]) / float(scales[2])
    total = (a.astype(int) - zeros[0]) * (b.astype(int) - zeros[1])

    def expected(mode: str) -> Any:
        return np.vectorize(lambda t: code(int(t), factor, zeros[2], mode, dtype))(total)

    tensors = [of(name, IMAGE, dtype, *pair) for name, *pair in zip("aby", scales, zeros, strict=True)]
    compared(tensors, op("MUL", "a b", "y", "MulOptions"), {"a": a, "b": b}, expected, MODES, tmp_path)


@pytest.mark.parametrize("is_layer", [True, False], ids=["dense", "product"])
def test_dense_layers_multiply_scales_in_f32_and_products_in_f64(is_layer: bool, tmp_path: Path) -> None:
    x, one = np.arange(1, 26, 2, dtype=I8).reshape(-1, 1), np.ones((1, 1), I8)
    x_scale, w_scale = next(
        (a, b) for a, b in RNG.random((99, 2)).astype(F32) if float(a) * float(b) * (1 + 3e-8) < float(a * b)
    )
    # Halves by the product in f32, a little less by that in f64.
    y_scale = x_scale * w_scale * 2
    factor = 0.5 if is_layer else float(x_scale) * float(w_scale) / float(y_scale)

    def expected(mode: str) -> Any:
        return np.vectorize(lambda t: code(int(t), factor, 0, mode))(x)

    assert (expected("fixed") == (x + 1 if is_layer else x) // 2).all()
    tensors = [of("x", x.shape, I8, x_scale), holds("w", one, w_scale), of("y", x.shape, I8, y_scale)]
    layer = (
        op("FULLY_CONNECTED", "x w -", "y", "FullyConnectedOptions")
        if is_layer
        else op("MUL", "x w", "y", "MulOptions")
    )
    compared(tensors, layer, {"x": x}, expected, MODES, tmp_path)


@pytest.mark.parametrize("dtype", [I8, I16])
@pytest.mark.parametrize("kind", ["MEAN", "SUM"])
def test_means_keep_the_bits_of_the_multiplier(kind: str, dtype: Any, tmp_path: Path) -> None:
    x, count = codes(dtype, *IMAGE), 16 if kind == "MEAN" else 1
    unit, (zero, y_zero) = (F32(1e-2), (3, -7)) if dtype is I8 else (F32(1e-4), (0, 0))
    y_scale = F32(unit * F32(0.4 if kind == "MEAN" else 5.0))
    number, shift = multiplier_of(float(unit) / float(y_scale))
    number, shift = (number << count.bit_length() - 1) // count, shift - (count.bit_length() - 1)
    total = (x.astype(int) - zero).sum((1, 2))
    limits = np.iinfo(dtype)

    def expected(mode: str) -> Any:
        made = np.vectorize(lambda t: scaled(int(t), number, shift, mode) + y_zero)(total)
        return np.clip(made, limits.min, limits.max)

    tensors = [
        of("x", IMAGE, dtype, unit, zero),
        holds("axes", np.array([1, 2], np.int32)),
        of("y", [1, 3], dtype, y_scale, y_zero),
    ]
    compared(tensors, op(kind, "x axes", "y", "ReducerOptions"), {"x": x}, expected, MODES, tmp_path)


@pytest.mark.parametrize(("dtype", "to"), [(I8, I8), (I16, I8), (I8, I16)])
def test_conversions_between_scales(dtype: Any, to: Any, tmp_path: Path) -> None:
    x = codes(dtype, *IMAGE)
    parameters = {I8: (F32(0.013), 5), I16: (F32(1e-4), 0)}
    (scale, zero), (y_scale, y_zero) = parameters[dtype], parameters[to] if to is not dtype else (F32(0.031), -9)
    factor = float(scale) / float(y_scale)

    def expected(mode: str) -> Any:
        return np.vectorize(lambda c: code(int(c) - zero, factor, y_zero, mode, to))(x)

    tensors = [of("x", IMAGE, dtype, scale, zero), of("y", IMAGE, to, y_scale, y_zero)]
    compared(tensors, op("QUANTIZE", "x", "y", "QuantizeOptions"), {"x": x}, expected, MODES, tmp_path)


def test_layers_of_16_bits_are_in_fixed_point_anyway(tmp_path: Path) -> None:
    tensors = [of(name, [4], I16, 1e-4) for name in "aby"]
    data = model(tensors, [op("ADD", "a b", "y", "AddOptions")], "a b", "y")
    texts = {mode: imported(data, tmp_path, requantize=mode).text for mode in ("f32", *MODES)}
    assert 'mode="tflite"' in texts["f32"]
    assert texts["f32"] == texts["tflite"] != texts["fixed"]


@pytest.mark.parametrize(
    ("name", "mode", "said"),
    [
        ("a.tflite", "double", "requantize is 'double', expected one of f32, fixed, tflite"),
        ("a.onnx", "fixed", "onnx models are requantised in f32 only, found requantize='fixed'"),
    ],
)
def test_modes_that_are_not_there_are_refused(name: str, mode: str, said: str, tmp_path: Path) -> None:
    path = saved(b"\0" * 8, tmp_path, name)
    with pytest.raises(ModelImportError) as raised:
        load(path, requantize=mode)
    assert raised.value.code == "import-value"
    assert said in str(raised.value)


def test_the_command_line_has_the_modes(tmp_path: Path) -> None:
    tensors = [of(name, [4], I8, 0.1) for name in "aby"]
    path = saved(model(tensors, [op("ADD", "a b", "y", "AddOptions")], "a b", "y"), tmp_path)
    result = CliRunner().invoke(command, [str(path), "-o", str(tmp_path), "--requantize", "tflite"])
    assert result.exit_code == 0, result.output
    assert 'mode="tflite"' in path.with_suffix(".oi").read_text(encoding="utf-8")
