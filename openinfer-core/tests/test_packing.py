"""Element types and packing of core against NumPy's limits and a bit stream of Python integers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from openinfer.array_types import element_type, storage_dtype
from openinfer.dtypes import BUILTIN, DType, Kind
from openinfer.packing import pack, repeated, unpack
from openinfer.scalars import repeated_code

PACKED = [dtype for dtype in BUILTIN if dtype.is_packed]
BYTES = [dtype for dtype in BUILTIN if not dtype.is_packed]


def legal(dtype: DType) -> list[int]:
    """Every element of a packed type."""
    if dtype.name == "t1":
        return [-1, 1]
    return [-1, 0, 1] if dtype.name == "t2" else list(range(dtype.minimum or 0, (dtype.maximum or 0) + 1))


def stream(dtype: DType, values: list[int]) -> bytes:
    """The bit stream: element i in bits i*w to i*w+w-1, least significant first; -1 of t1 is 0."""
    codes = [int(v == 1) if dtype.name == "t1" else v & ((1 << dtype.bits) - 1) for v in values]
    total = sum(code << (place * dtype.bits) for place, code in enumerate(codes))
    return total.to_bytes(-(-len(values) * dtype.bits // 8), "little")


@pytest.mark.rule("dtypes.packing.1")
@pytest.mark.parametrize("dtype", PACKED, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 0), (8, 9)], ids=str)
def test_packed_elements_are_a_bit_stream_and_come_back(dtype: DType, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).choice(legal(dtype), shape).astype(storage_dtype(dtype))
    stored = pack(values, dtype)
    assert stored.tobytes() == stream(dtype, values.reshape(-1).tolist())
    found = unpack(stored, dtype, shape)
    assert found.dtype == values.dtype
    assert found.shape == shape
    assert np.array_equal(found, values)


@pytest.mark.parametrize("dtype", PACKED, ids=str)
def test_equal_elements_are_packed_without_the_elements(dtype: DType) -> None:
    for value in legal(dtype):
        stored = repeated(repeated_code(dtype, value), dtype, 11)
        assert stored.tobytes() == stream(dtype, [value] * 11)


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_element_types_have_the_width_and_range_of_their_numpy_type(dtype: DType) -> None:
    held = storage_dtype(dtype)
    assert held.itemsize * 8 == dtype.bits
    if dtype.is_integer:
        assert (dtype.minimum, dtype.maximum) == (np.iinfo(held).min, np.iinfo(held).max)
    if dtype.is_float:
        assert ml_dtypes.finfo(held).bits == dtype.bits


@pytest.mark.parametrize("dtype", [dtype for dtype in BYTES if dtype.kind is not Kind.BITSET], ids=str)
def test_arrays_have_the_element_type_that_is_stored_in_theirs(dtype: DType) -> None:
    assert element_type(storage_dtype(dtype)) is dtype


def test_arrays_of_other_types_have_no_element_type() -> None:
    assert element_type(np.dtype(np.complex64)) is None
    assert element_type(np.dtype(object)) is None
