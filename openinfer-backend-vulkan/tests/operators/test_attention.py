"""Attention and rotary embeddings, against NumPy in double precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def attended(q: Array, k: Array, v: Array, mask: Array) -> Array:
    weights = q.astype(np.float64) @ k.swapaxes(-1, -2).astype(np.float64) / np.sqrt(q.shape[-1])
    powers = np.where(mask, np.exp(weights - weights.max(-1, keepdims=True)), 0.0)
    return powers / powers.sum(-1, keepdims=True) @ v.astype(np.float64)


@pytest.mark.usefixtures("few_turns")
def test_keys_are_divided_among_dispatches(carry_out: CarryOut) -> None:
    q, k, v = normal(2, 6, 4), normal(2, 9, 4, seed=1), normal(2, 9, 3, seed=2)

    found = carry_out("sdpa", q, k, v, causal=True)

    np.testing.assert_allclose(found, attended(q, k, v, np.tri(6, 9, 3, bool)), rtol=1e-5, atol=1e-6)


def test_a_query_that_sees_no_key_gives_zeros(carry_out: CarryOut) -> None:
    q, k, v = normal(2, 4), normal(3, 4), normal(3, 2)
    mask = np.array([[False, False, False], [True, False, True]])

    found = carry_out("sdpa", q, k, v, mask)

    assert found[0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found[1], attended(q, k, v, mask[1])[1], rtol=1e-5)


def test_an_infinite_weight_or_nan_is_not_hidden(carry_out: CarryOut) -> None:
    q, k, v = np.ones((1, 1), np.float32), np.array([[0.0], [np.nan], [0.0]], np.float32), normal(3, 2)

    assert np.isnan(carry_out("sdpa", q, k, v)).all()


@pytest.mark.parametrize("position", [0, 1, 1_000, 10**6 + 1, 2**31 - 1])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_positions_of_any_size_turn_exactly(carry_out: CarryOut, position: int, dtype: type[np.generic]) -> None:
    x = normal(1, 8)
    angles = position * 10_000.0 ** (-np.arange(4) / 4)
    cos, sin = np.cos(angles), np.sin(angles)

    found = carry_out("rope", x, np.array([position], dtype))

    a, b = x[0, :4].astype(np.float64), x[0, 4:].astype(np.float64)
    np.testing.assert_allclose(found[0], [*(a * cos - b * sin), *(b * cos + a * sin)], rtol=0, atol=2e-6)


def test_a_negative_position_rotates_backwards(carry_out: CarryOut) -> None:
    x = normal(1, 4)

    there = carry_out("rope", x, np.array([7]))

    np.testing.assert_allclose(carry_out("rope", there, np.array([-7])), x, atol=1e-6)
