"""bf16, f16 and f8 bit for bit: every code decoded and a million floats encoded, by every encoder there is.

The container's encoder works on bits, that of literals on Python floats, and the device cpu converts as ml_dtypes and
NumPy do: three ways that know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.dtypes import BF16, F8, F16, DType
from openinfer.scalars import encode_bits, round_to
from openinfer.simulate import Simulator
from openinfer_oinf.floats import bf16_from_f32, f8_from_f32, f32_from_bf16, f32_from_f8

KINDS = {F8: np.dtype(ml_dtypes.float8_e5m2), BF16: np.dtype(ml_dtypes.bfloat16), F16: np.dtype(np.float16)}
CONTAINER: dict[DType, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    F8: (f8_from_f32, f32_from_f8),
    BF16: (bf16_from_f32, f32_from_bf16),
}
LOW_FLOATS = pytest.mark.parametrize("dtype", KINDS, ids=str)


def codes(dtype: DType) -> np.ndarray:
    """Return every code."""
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}")


def floats(dtype: DType) -> np.ndarray:
    """Return a million floats: any bits, all values, what lies halfway between values, and the neighbours of that."""
    drawn = np.random.default_rng(17).integers(0, 1 << 32, 1_000_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        ordered = np.sort(codes(dtype).view(KINDS[dtype]).astype(np.float64))
    ordered = ordered[np.isfinite(ordered)]
    halfway = ((ordered[:-1] + ordered[1:]) / 2).astype(np.float32)
    around = [np.nextafter(halfway, np.float32(side)) for side in (-np.inf, np.inf)]
    return np.concatenate([drawn, ordered.astype(np.float32), halfway, *around])


def bits(values: np.ndarray) -> np.ndarray:
    """Return the bits of floats, with one NaN for all."""
    found = values.view(f"u{values.itemsize}").copy()
    found[np.isnan(values)] = np.iinfo(found.dtype).max
    return found


def decoded(dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return codes(dtype).view(KINDS[dtype]).astype(np.float32)


def narrowed(values: np.ndarray, dtype: DType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(KINDS[dtype])


@pytest.mark.rule("dtypes.rounding.2", "dtypes.types.2")
@pytest.mark.parametrize("dtype", CONTAINER, ids=str)
def test_the_container_encodes_and_decodes_as_ml_dtypes_does(dtype: DType) -> None:
    encode, decode = CONTAINER[dtype]
    values = floats(dtype)

    np.testing.assert_array_equal(bits(encode(values).view(KINDS[dtype])), bits(narrowed(values, dtype)))
    np.testing.assert_array_equal(bits(decode(codes(dtype))), bits(codes(dtype).view(KINDS[dtype]).astype(np.float32)))


@pytest.mark.rule("dtypes.rounding.2")
@LOW_FLOATS
def test_the_device_cpu_casts_as_the_format_says(dtype: DType) -> None:
    values = floats(dtype)
    text = f"""
        dynamic {{ x: f32[{len(values)}]; c: {dtype}[{1 << dtype.bits}]; }}
        volatile {{ narrow: {dtype}[{len(values)}]; wide: f32[{1 << dtype.bits}]; }}
        block entry {{ op cast(x, to={dtype}) >> narrow; op cast(c, to=f32) >> wide; return; }}
    """
    executor = Simulator(oi.Model.from_arrays({}), graph(text)).make_executor()
    executor.step(x=values, c=codes(dtype).view(KINDS[dtype]))

    np.testing.assert_array_equal(bits(executor.fetch("narrow")), bits(narrowed(values, dtype)))
    np.testing.assert_array_equal(bits(executor.fetch("wide")), bits(decoded(dtype)))


@pytest.mark.rule("dtypes.rounding.2")
@LOW_FLOATS
def test_literals_are_rounded_as_ml_dtypes_rounds(dtype: DType) -> None:
    values = floats(dtype)
    sampled = np.concatenate([values[:3000], values[1_000_000:][:: 1 if dtype is F8 else 37]])
    sampled = sampled[~np.isnan(sampled)]
    expected = narrowed(sampled, dtype)

    assert [round_to(dtype, float(value)) for value in sampled] == expected.astype(np.float64).tolist()
    assert [encode_bits(dtype, float(value)) for value in expected] == bits(expected).tolist()
