"""Running sums, order, sums of powers, powers of integers and recurrent cells, against ONNX and Python."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.ops.schema import OpTypeError
from openinfer_backend_cpu.indices import OutOfRangeError


def noise(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("exclusive", "reverse"), list(itertools.product((False, True), repeat=2)))
@pytest.mark.parametrize("axis", [0, -1])
def test_cumsum_agrees_with_onnx(run_operator, onnx_reference, exclusive: bool, reverse: bool, axis: int) -> None:
    x = noise(4, 5)
    given_ = {"x": x, "a": np.array(axis)}
    expected = onnx_reference("CumSum", given_, opset=14, exclusive=int(exclusive), reverse=int(reverse))[0]
    found = run_operator("cumsum", [x], axis=axis, exclusive=exclusive, reverse=reverse)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_cumsum_of_integers_wraps(run_operator) -> None:
    assert run_operator("cumsum", [np.array([100, 100, 100], np.int8)], axis=0)[0].tolist() == [100, -56, 44]


def test_cumsum_of_low_floats_rounds_each_sum_once(run_operator) -> None:
    x = np.ones(4096, np.float16)
    sums = run_operator("cumsum", [x], axis=0)[0]
    assert sums.astype(np.float64).tolist() == np.arange(1, 4097).astype(np.float16).tolist()


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_topk_agrees_with_onnx(run_operator, onnx_reference, largest: bool, axis: int) -> None:
    x = np.random.default_rng(0).permutation(24 * 5).reshape(24, 5).astype(np.float32)
    inputs = {"x": x, "k": np.array([3])}
    expected = onnx_reference("TopK", inputs, 2, opset=11, axis=axis, largest=int(largest))
    for found, wanted in zip(run_operator("topk", [x], k=3, axis=axis, largest=largest), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def expected_order(row: list[float], *, descending: bool) -> list[int]:
    def key(place: int) -> tuple[float, float, int]:
        undefined, value = math.isnan(row[place]), 0.0 if math.isnan(row[place]) else row[place]
        return (not undefined, -value, place) if descending else (undefined, value, place)

    return sorted(range(len(row)), key=key)


FEW_NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.nan, -math.nan, math.inf, -math.inf])


@pytest.mark.rule("operators.numbers.6")
@settings(max_examples=150, deadline=None)
@given(row=st.lists(FEW_NUMBERS, min_size=1, max_size=40), k=st.integers(1, 40), descending=st.booleans())
def test_order_is_stable_and_nan_is_greatest(run_operator, row: list[float], k: int, descending: bool) -> None:
    x, kept = np.array(row, np.float32), min(k, len(row))
    order = expected_order(row, descending=descending)
    values, indices = run_operator("topk", [x], k=kept, largest=descending)
    assert indices.tolist() == order[:kept]
    np.testing.assert_array_equal(values, x[order[:kept]])
    assert run_operator("argsort", [x], descending=descending)[0].tolist() == order


@settings(max_examples=100, deadline=None)
@given(
    row=st.lists(st.integers(0, 255), min_size=1, max_size=60),
    k=st.integers(1, 7),
    kind=st.sampled_from([np.uint8, np.int8]),
    largest=st.booleans(),
)
def test_the_first_of_many_integers_are_those_of_the_order(run_operator, row, k, kind, largest) -> None:
    x = np.array([row, row[::-1]], np.uint8).view(kind)
    k = min(k, len(row))
    _, indices = run_operator("topk", [x], k=k, largest=largest)
    for found, own in zip(indices.tolist(), x.tolist(), strict=True):
        assert found == expected_order(own, descending=largest)[:k]


def test_the_ends_of_64_bits_are_in_order(run_operator) -> None:
    x = np.array([0, 2**64 - 1, 2**63, 1], np.uint64)
    assert run_operator("argsort", [x], descending=True)[0].tolist() == [1, 2, 3, 0]


def test_more_elements_than_there_are_is_refused(run_operator) -> None:
    with pytest.raises(OpTypeError, match=r"k is 4, expected 0\.\.3"):
        run_operator("topk", [noise(2, 3)], k=4)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_agrees_with_onnx(run_operator, onnx_reference, axes: tuple[int, ...], keepdims: bool) -> None:
    x = noise(2, 3, 4) * 50
    given_ = {"x": x} | ({"a": np.array(axes)} if axes else {})
    expected = onnx_reference("ReduceLogSumExp", given_, opset=18, keepdims=int(keepdims))[0]
    found = run_operator("logsumexp_axis", [x], axes=axes, keepdims=keepdims)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1000.0, 1000.0], 1000 + math.log(2)),
        ([-math.inf] * 2, -math.inf),
        ([math.inf, 0.0], math.inf),
        ([], -math.inf),
    ],
)
def test_logsumexp_at_the_ends(run_operator, row: list[float], expected: float) -> None:
    found = run_operator("logsumexp_axis", [np.array(row, np.float32)], axes=0)[0]
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint64])
@pytest.mark.parametrize("without", [[], ["pow"]])
def test_powers_of_integers_wrap(run_operator, kind: Any, without: list[str]) -> None:
    info = np.iinfo(kind)
    a = np.array([[info.min], [info.max], [3], [0]], kind)
    b = np.array([0, 1, 2, 5, 127], kind)
    (found,) = run_operator("pow", [a, b], without_kernels=without)
    bits = info.bits
    expected = [[pow(int(x), int(y), 1 << bits) for y in b] for x in a[:, 0]]
    assert [[int(value) % (1 << bits) for value in row] for row in found] == expected


def test_a_negative_exponent_of_an_integer_is_an_error(run_operator) -> None:
    with pytest.raises(OutOfRangeError, match=r"pow: exponent -1 at \[1\] is negative") as caught:
        run_operator("pow", [np.array([2, 2]), np.array([3, -1])])
    assert caught.value.code == "out-of-range"


@pytest.mark.parametrize("bias", [False, True])
def test_lstm_cell_agrees_with_onnx(run_operator, onnx_reference, bias: bool) -> None:
    x, h, c, w, r = noise(2, 5), noise(2, 3, seed=1), noise(2, 3, seed=2), noise(12, 5, seed=3), noise(12, 3, seed=4)
    b = noise(24, seed=5) if bias else np.zeros(24, np.float32)
    inputs = {"x": x[None], "w": w[None], "r": r[None], "b": b[None], "": x, "h": h[None], "c": c[None]}
    _, state, _ = (*onnx_reference("LSTM", inputs, 2, opset=14, hidden_size=3), None)
    h1, c1 = run_operator("lstm_cell", [x, h, c, w, r, b if bias else None])
    np.testing.assert_allclose(h1, state[0], rtol=1e-5, atol=1e-6)
    gates = x @ w.T + h @ r.T + b[:12] + b[12:]
    i, _, f = (1 / (1 + np.exp(-gates[:, n * 3 : n * 3 + 3])) for n in range(3))
    np.testing.assert_allclose(c1, f * c + i * np.tanh(gates[:, 9:]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("linear_before_reset", [True, False])
def test_gru_cell_agrees_with_onnx(run_operator, onnx_reference, linear_before_reset: bool) -> None:
    x, h, w, r, b = noise(2, 5), noise(2, 3, seed=1), noise(9, 5, seed=3), noise(9, 3, seed=4), noise(18, seed=5)
    inputs = {"x": x[None], "w": w[None], "r": r[None], "b": b[None], "": x, "h": h[None]}
    attributes = {"hidden_size": 3, "linear_before_reset": int(linear_before_reset)}
    _, state = onnx_reference("GRU", inputs, 2, opset=14, **attributes)
    (found,) = run_operator("gru_cell", [x, h, w, r, b], linear_before_reset=linear_before_reset)
    np.testing.assert_allclose(found, state[0], rtol=1e-5, atol=1e-6)


def test_a_cell_refuses_weights_of_another_shape(run_operator) -> None:
    inputs = [noise(2, 5), noise(2, 3), noise(9, 4), noise(9, 3)]
    with pytest.raises(OpTypeError, match=r"w is f32\[9,4\], expected shape \[9,5\]"):
        run_operator("gru_cell", [*inputs, None])
