"""Rows by workgroups, as devices with many cores carry them out: the device's results against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import CarryOut

pytestmark = pytest.mark.usefixtures("many_cores")


def softmax(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize("length", [1, 31, 32, 37, 64, 127, 1000, 1031, 4096, 20001])
def test_softmax(carry_out: CarryOut, length: int) -> None:
    x = np.random.default_rng(length).standard_normal((3, length), np.float32)

    np.testing.assert_allclose(carry_out("softmax", x, axis=1), softmax(x, 1), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("shape", [(0, 64), (8, 64), (4, 2, 72)])
def test_rows_of_a_group(carry_out: CarryOut, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape, np.float32).astype(np.float16)

    found = carry_out("softmax", x, axis=-1)

    assert found.dtype == np.float16
    np.testing.assert_allclose(found, softmax(x, -1), rtol=1e-3, atol=1e-6)


def test_rows_with_infinities_and_nan(carry_out: CarryOut) -> None:
    x = np.zeros((3, 100), np.float32)
    x[0, 7], x[1, 70], x[2, ::2] = np.nan, -np.inf, -np.inf

    found = carry_out("softmax", x, axis=1)

    assert np.isnan(found[0]).all()
    assert found[1, 70] == 0
    np.testing.assert_allclose(found[2], [0, 0.02] * 50, rtol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(3, 4099), (64, 64), (1, 100_000), (5, 257)])
@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_sums(carry_out: CarryOut, rows: int, columns: int, kind: type[np.generic]) -> None:
    x = np.random.default_rng(2).integers(-9, 9, (rows, columns)).astype(kind)

    assert (carry_out("sum_axis", x, axes=(1,)) == x.sum(1, dtype=kind)).all()


@pytest.mark.parametrize("shape", [(3, 4099), (64, 64), (1, 100_000), (5, 257)], ids=str)
@pytest.mark.parametrize(("op", "find"), [("argmax_axis", np.argmax), ("argmin_axis", np.argmin)])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.int64])
def test_places_of_extrema(
    carry_out: CarryOut, op: str, find: Callable[..., object], kind: type[np.generic], shape: tuple[int, ...]
) -> None:
    # Few values: the first of many equal ones counts.
    x = np.random.default_rng(5).integers(-9, 9, shape).astype(kind)

    assert (carry_out(op, x, axis=1) == find(x, axis=1)).all()
    last = shape[1] - 1 - find(x[:, ::-1], axis=1)
    assert (carry_out(op, x, axis=1, select_first=False) == last).all()


@pytest.mark.parametrize("shape", [(64, 1000), (2, 300)], ids=str)
def test_nan_among_extrema(carry_out: CarryOut, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(6).standard_normal(shape, np.float32)
    x[0, ::7], x[1, 0] = np.nan, np.nan

    found = carry_out("argmax_axis", x, axis=1)
    propagated = carry_out("argmax_axis", x, axis=1, nan="propagate")

    # NumPy's way is that of "propagate"; a NaN that comes first has the place 0 in any event.
    assert (propagated == x.argmax(1)).all()
    assert found[1] == 0
    x[0, 0] = -9
    assert carry_out("argmax_axis", x, axis=1)[0] == np.nanargmax(x[0])


@pytest.mark.parametrize(("rows", "columns"), [(512, 32), (300, 8), (1000, 24)])
def test_sums_over_the_first_dim(carry_out: CarryOut, rows: int, columns: int) -> None:
    x = np.random.default_rng(3).integers(-9, 9, (rows, columns)).astype(np.float32)

    assert (carry_out("sum_axis", x, axes=(0,)) == x.sum(0)).all()


@pytest.mark.parametrize(("depth", "columns"), [(64, 32), (64, 33), (100, 64), (4096, 17), (33, 3), (1031, 8)])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_a_vector_by_a_matrix(
    carry_out: CarryOut, depth: int, columns: int, kind: type[np.generic], *, is_turned: bool
) -> None:
    rng = np.random.default_rng(4)
    x, w = (rng.integers(-4, 4, shape).astype(kind) for shape in ((1, depth), (depth, columns)))

    found = carry_out("matmul", x, np.ascontiguousarray(w.T) if is_turned else w, trans_b=is_turned)

    assert (found == (x.astype(np.float64) @ w).astype(kind)).all()
