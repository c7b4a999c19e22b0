"""Low floats on the device: every code is widened exactly, and every f32 is rounded to nearest, ties to even."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.dtypes import BF16, F8, F16, F32, DType

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

FORMATS = [(F8, ml_dtypes.float8_e5m2), (BF16, ml_dtypes.bfloat16), (F16, np.float16)]
by_format = pytest.mark.parametrize(("dtype", "storage"), FORMATS, ids=[str(dtype) for dtype, _ in FORMATS])


def codes(dtype: DType, storage: type[np.generic]) -> Array:
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}").view(storage)


def around(values: Array) -> Array:
    """Return f32 numbers, what lies halfway to the next code of a low float, and the neighbours of that."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    near = [bits + shift + step for shift in (0, 1 << 12, 1 << 15, 1 << 20) for step in (-1, 0, 1)]
    return np.clip(np.concatenate(near), 0, 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def assert_same(found: Array, expected: Array) -> None:
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        a, b = found.astype(np.float64), expected.astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    wrong = ((a != b) | (np.signbit(a) != np.signbit(b))) & ~both_nan
    assert not wrong.any(), (a[wrong][:5], b[wrong][:5])


@by_format
def test_every_code_is_widened_exactly(carry_out: CarryOut, dtype: DType, storage: type[np.generic]) -> None:
    given = codes(dtype, storage)

    assert_same(carry_out("cast", given, to=F32), given.astype(np.float32))


@by_format
def test_floats_are_rounded_to_the_nearest_code(carry_out: CarryOut, dtype: DType, storage: type[np.generic]) -> None:
    random = np.random.default_rng(3).integers(0, 1 << 32, 40_000, dtype=np.uint32).view(np.float32)
    given = np.concatenate([random, around(codes(dtype, storage))])

    with np.errstate(all="ignore"):
        assert_same(carry_out("cast", given, to=dtype), given.astype(storage))


@by_format
def test_a_sum_is_rounded_once(carry_out: CarryOut, dtype: DType, storage: type[np.generic]) -> None:
    row = np.ones(4096, storage)

    found = carry_out("sum_axis", row, axes=0)

    assert found.dtype == np.dtype(storage)
    assert found.tolist() == 4096


@by_format
def test_codes_are_moved_bit_by_bit(carry_out: CarryOut, dtype: DType, storage: type[np.generic]) -> None:
    given = codes(dtype, storage).reshape(16, -1)

    assert carry_out("transpose", given).tobytes() == np.ascontiguousarray(given.T).tobytes()
