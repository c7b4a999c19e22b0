"""Loops of more iterations than a software device runs in one dispatch, compared with NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.affine import Index
from openinfer.array_types import storage_dtype
from openinfer.compute import Builder, Tensor
from openinfer.dtypes import F32, U32
from openinfer.expr import tree
from openinfer.ir.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

LONG = 140_001
"""More than two dispatches of llvmpipe hold."""


def whole(*shape: int) -> Array:
    return np.random.default_rng(7).integers(-3, 4, shape)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize(("op", "oracle"), [("sum_axis", np.sum), ("max_axis", np.max)])
def test_long_reductions(carry_out: CarryOut, op: str, oracle: Callable[..., Array], dtype: type[np.generic]) -> None:
    x = whole(3, LONG).astype(dtype)
    x[1, -1] = 9

    np.testing.assert_array_equal(carry_out(op, x, axes=1), oracle(x, axis=1))


def test_a_long_reduction_without_a_kept_axis_and_one_of_bools(carry_out: CarryOut) -> None:
    assert carry_out("sum_axis", np.ones((7, 10_000), np.int32), axes=(0, 1)).tolist() == 70_000
    x = np.zeros(LONG, np.float32)
    assert carry_out("is_finite", x).tolist() is True
    x[3] = np.inf
    assert carry_out("is_finite", x).tolist() is False


def test_a_long_mean_divides_by_the_whole_count(carry_out: CarryOut) -> None:
    x = np.repeat(np.array([1, 5], np.float32), LONG)

    assert carry_out("mean_axis", x, axes=0).tolist() == pytest.approx(3.0, rel=1e-6)


def test_a_long_mean_of_integers_sums_in_64_bits(carry_out: CarryOut) -> None:
    x = np.full((2, LONG), (1 << 31) - 1, np.int32)

    assert carry_out("mean_axis", x, axes=1).tolist() == [(1 << 31) - 1] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_long_products(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    a, b = whole(2, LONG), whole(LONG, 3)

    np.testing.assert_array_equal(carry_out("matmul", a.astype(dtype), b.astype(dtype)), a @ b)


def test_the_bias_of_a_long_product_is_added_once(carry_out: CarryOut) -> None:
    x, w, bias = whole(2, LONG), whole(LONG, 3), np.array([1, 2, 3])

    found = carry_out("linear", x.astype(np.float32), w.astype(np.float32), bias.astype(np.float32))

    np.testing.assert_array_equal(found, x @ w + bias)


@pytest.mark.parametrize("place", [0, 59_999, 60_000, 100_000, LONG - 1])
@pytest.mark.parametrize("first", [True, False])
def test_the_position_in_a_long_slice(carry_out: CarryOut, place: int, first: bool) -> None:
    x = np.zeros((LONG, 2), np.float32)
    x[place, 0] = x[LONG - 1, 1] = 2.0
    x[[5, 70_000], 1] = 2.0

    found = carry_out("argmax_axis", x, axis=0, select_first=first)

    assert found.tolist() == [place, 5 if first else LONG - 1]


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (1, 5), (5, 1)])
def test_a_convolution_of_many_channels(carry_out: CarryOut, kernel: tuple[int, int]) -> None:
    x, w, bias = whole(1, 30_000, *kernel), whole(2, 30_000, *kernel), np.array([1, -1])

    found = carry_out("conv2d", *(array.astype(np.float32) for array in (x, w, bias)))

    assert found.ravel().tolist() == ((x * w).sum((1, 2, 3)) + bias).tolist()


def test_a_window_just_below_the_limit(carry_out: CarryOut) -> None:
    x = np.ones((1, 1, 243, 243), np.float32)

    assert carry_out("avg_pool2d", x, kernel=243).ravel().tolist() == [1.0]


def test_a_window_that_is_divided(carry_out: CarryOut) -> None:
    x = np.ones((1, 1, 300, 300), np.float32)
    x[0, 0, 299, 299] = 5.0

    assert carry_out("max_pool2d", x, kernel=300).ravel().tolist() == [5.0]


@pytest.mark.parametrize(("function", "oracle", "dtype"), [(tree.power, np.power, U32), (tree.rem, np.fmod, F32)])
def test_loops_in_functions_count(device: VulkanBackend, function: Any, oracle: Any, dtype: DType) -> None:
    shape, sums = (4_000, 4), (4,)
    kinds = [TensorType(dtype, shape), TensorType(dtype, shape), TensorType(dtype, sums)]
    a, b, y = (Tensor(n, k.dtype, tuple(map(Index.of, k.shape))) for n, k in zip("aby", kinds, strict=True))
    k = Builder("summed", [a, b], [y])
    (i,), r = k.axes(4), k.axis(4_000)
    k.outputs[0][i] = k.sum(k.apply(function, k.inputs[0][r, i], k.inputs[1][r, i]), (r,))
    left = 2 * np.random.default_rng(0).integers(0, 1 << 30, shape).astype(storage_dtype(dtype)) + 1
    right = np.full(shape, 0xFFFFFFFF if dtype is U32 else 2.0**-100, storage_dtype(dtype))
    operands = [device.upload(kind, values) for kind, values in zip(kinds[:2], (left, right), strict=True)]
    result = device.allocate(kinds[2])

    device.bind_computation(k.computation(), operands, [result])()

    np.testing.assert_array_equal(device.read(result), oracle(left, right).sum(0, dtype=left.dtype))
