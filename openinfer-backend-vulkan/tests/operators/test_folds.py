"""Reductions derived from their folds, against NumPy's own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.dtypes import F32
from openinfer.errors import FeatureMissingError, ShapeError
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.schema import Fold

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

AXES = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2), (-1,)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize(("op", "oracle"), [("sum_axis", np.sum), ("max_axis", np.max), ("mean_axis", np.mean)])
def test_a_float_reduction_is_numpys(
    carry_out: CarryOut, op: str, oracle: Callable[..., Array], axes: tuple[int, ...], keepdims: bool
) -> None:
    x = np.random.default_rng(5).normal(size=(3, 4, 5)).astype(np.float32)
    expected = oracle(x.astype(np.float64), axis=axes, keepdims=keepdims)

    found = carry_out(op, x, axes=axes, keepdims=keepdims)

    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integer_sums_wrap(carry_out: CarryOut, dtype: type[np.int32 | np.uint32], axes: tuple[int, ...]) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(6).integers(limits.min, limits.max, (3, 4, 5), dtype=dtype, endpoint=True)

    found = carry_out("sum_axis", x, axes=axes)

    exact = np.asarray(x.astype(object).sum(axes))
    assert [n % (1 << 32) for n in found.ravel().tolist()] == [n % (1 << 32) for n in exact.ravel().tolist()]


def test_an_integer_mean_truncates_the_sum_over_the_count(carry_out: CarryOut) -> None:
    x = np.array([[(1 << 31) - 1] * 4, [-7, 0, 0, 0], [7, 7, 7, 6]], np.int32)

    assert carry_out("mean_axis", x, axes=1).tolist() == [(1 << 31) - 1, -1, 6]


def test_a_feature_that_the_device_does_not_support_is_named(
    device: VulkanBackend, carry_out: CarryOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = dataclasses.replace(device._device.physical, features=frozenset())
    monkeypatch.setattr(device._device, "physical", plain)

    with pytest.raises(FeatureMissingError, match="does not support what a kernel needs: shaderInt64"):
        carry_out("mean_axis", np.ones((2, 2), np.int32), axes=1)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_value_that_is_not_finite_is_found(carry_out: CarryOut, value: float) -> None:
    x = np.zeros((30, 40), np.float32)
    spoilt = x.copy()
    spoilt[29, 39] = value

    assert carry_out("is_finite", x).tolist() is True
    assert carry_out("is_finite", spoilt).tolist() is False


def test_a_nan_counts_as_the_first_element_only(carry_out: CarryOut) -> None:
    x = np.array([[np.nan, 1, 2], [1, np.nan, 2]], np.float32)

    assert str(carry_out("max_axis", x, axes=1).tolist()) == "[nan, 2.0]"
    assert str(carry_out("max_axis", x, axes=1, nan="propagate").tolist()) == "[nan, nan]"


def test_an_empty_slice_sums_to_zero(carry_out: CarryOut) -> None:
    assert carry_out("sum_axis", np.zeros((3, 0), np.float32), axes=1).tolist() == [0.0, 0.0, 0.0]


def test_an_empty_slice_without_a_start_is_refused(device: VulkanBackend) -> None:
    x = tree.Input(0, F32)
    fold = Fold(start=None, element=x, combine=tree.maximum(x, tree.Input(1, F32)), finish=x)
    source, output = device.allocate(TensorType(F32, (2, 0))), device.allocate(TensorType(F32, (2,)))

    with pytest.raises(ShapeError, match=r"a slice over axes \[1\] of shape \[2, 0\] is empty"):
        device.bind_fold((1,), fold, source, output)


def test_remainders_within_a_reduction_are_computed_in_order_too(device: VulkanBackend) -> None:
    x = np.ldexp(1 + np.arange(3000) % 7 / 8, 100).astype(np.float32)
    zero, three = tree.literal(0.0, F32), tree.literal(3.0, F32)
    first, second = tree.Input(0, F32), tree.Input(1, F32)
    fold = Fold(start=zero, element=tree.rem(first, three), combine=tree.add(first, second), finish=first)
    output = device.allocate(TensorType(F32))

    device.bind_fold((0,), fold, device.upload(TensorType(F32, x.shape), x), output)()

    assert device.read(output) == np.fmod(x, np.float32(3)).sum()
