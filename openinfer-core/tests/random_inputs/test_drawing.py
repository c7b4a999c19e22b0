"""Random values cover their range, and special ones are drawn on request."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BUILTIN, F16, F32, I64, U8, DType
from openinfer.random_inputs import Interval, Specials, ValueRange, drawn, drawn_text, range_of_type

ANY = ValueRange(Interval(-1, 1), specials=Specials.ALL)


def test_all_values_of_a_byte_are_drawn() -> None:
    values = drawn(U8, (4000,), ValueRange(range_of_type(U8)), (0, 1))
    assert len(np.unique(values)) == 256


def test_wide_integers_have_masks_among_them() -> None:
    values = drawn(I64, (400,), ValueRange(range_of_type(I64)), (0,))
    assert {0, 1} <= set(values.tolist())
    assert np.abs(values).max() > 1 << 17


@pytest.mark.parametrize("dtype", [dtype for dtype in BUILTIN if dtype.name != "bitset"], ids=str)
def test_every_type_has_a_range_that_it_holds(dtype: DType) -> None:
    specials = Specials.ALL if dtype.is_float else Specials.NONE
    values = drawn(dtype, (64,), ValueRange(range_of_type(dtype), specials=specials), (3,), Specials.ALL)
    assert values.dtype == storage_dtype(dtype)


def test_special_floats_are_a_quarter() -> None:
    values = drawn(F32, (4000,), ANY, (0, 1, 2), Specials.ALL)
    limits = np.finfo(np.float32)
    for special in (limits.tiny, limits.smallest_subnormal, np.inf, -np.inf, np.float32(32768)):
        assert (values == special).any(), special
    assert np.isnan(values).any()
    zeros = values[values == 0]
    assert np.signbit(zeros).any()
    assert not np.signbit(zeros).all()
    usual = np.abs(values[np.isfinite(values)])
    assert ((usual <= 1) & (usual > 1e-5)).mean() > 0.7


@pytest.mark.parametrize(
    ("asked", "finite", "subnormal"),
    [(Specials.NONE, True, False), (Specials.NORMAL, True, False), (Specials.FINITE, True, True)],
)
def test_only_what_is_asked_for_is_drawn(asked: Specials, finite: bool, subnormal: bool) -> None:
    values = drawn(F16, (4000,), ANY, (0,), asked).astype(np.float64)
    assert np.isfinite(values).all() == finite
    assert (values == 2.0**-24).any() == subnormal


def test_what_was_drawn_is_said() -> None:
    assert drawn_text(F32, ANY, Specials.FINITE) == "f32 -1..1; special: ±(zeros, the least normal, subnormal, 32768)"
    assert drawn_text(I64, ValueRange(Interval(0, 1), "indices below 2")) == "i64 0..1, indices below 2"
