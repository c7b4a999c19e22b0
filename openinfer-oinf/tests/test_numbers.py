"""Number encodings: packed bit streams, bf16 and f8, against bit-by-bit definitions and ml_dtypes."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer_oinf import arrays
from openinfer_oinf.encoding import encode
from openinfer_oinf.floats import bf16_from_f32, f8_from_f32, f32_from_bf16, f32_from_f8
from openinfer_oinf.packing import pack, unpack
from openinfer_oinf.valuetypes import value_type

RANGES = {
    "i4": range(-8, 8),
    "i2": range(-2, 2),
    "i1": range(-1, 1),
    "u4": range(16),
    "u2": range(4),
    "u1": range(2),
    "t2": range(-1, 2),
    "t1": (-1, 1),
}


def stream(name: str, values: list[int]) -> bytes:
    """The bit stream by definition: element i in bits i*w to i*w+w-1, least significant bit first."""
    width = int(name[1])
    codes = [(1 if value == 1 else 0) if name == "t1" else value & ((1 << width) - 1) for value in values]
    total = sum(code << (at * width) for at, code in enumerate(codes))
    return total.to_bytes(-(-len(values) * width // 8), "little")


@pytest.mark.rule("container.values.1")
@pytest.mark.parametrize("name", RANGES)
@given(data=st.data())
def test_packing_is_the_bit_stream_and_unpacking_its_inverse(name, data):
    values = data.draw(st.lists(st.sampled_from(list(RANGES[name])), max_size=40))
    kind = value_type(name)
    array = np.array(values, np.uint8 if name[0] == "u" else np.int8)
    stored = pack(array, kind)
    assert stored.tobytes() == stream(name, values)
    first = data.draw(st.integers(0, len(values)))
    last = data.draw(st.integers(first, len(values)))
    assert unpack(stored, kind, first, last).tolist() == values[first:last]


@pytest.mark.parametrize(
    ("name", "values", "stored"),
    [
        ("i4", [-8, -3, 0, 7, 6, -1, -7, 3], "d870f639"),
        ("u2", [0, 1, 2, 3, 3, 2, 1, 0], "e41b"),
        ("t1", [-1, 1, -1, 1], "0a"),
    ],
)
def test_recorded_packings(name, values, stored):
    assert encode(np.array(values), value_type(name)).tobytes().hex() == stored


@pytest.mark.parametrize("name", ["i4", "u2", "t1"])
def test_long_streams_are_joined_without_seams(name):
    kind = value_type(name)
    values = np.random.default_rng(2).choice(list(RANGES[name]), 3 * 32768 + 5).astype(np.int64)
    stored = encode(values, kind)
    per_byte = 8 // kind.bits
    assert stored.size == -(-values.size // per_byte)
    for at in (0, 32768 - per_byte, 32768, 65536, 98304):
        part = values[at : at + 4 * per_byte]
        assert stored[at // per_byte : at // per_byte + 4].tobytes() == stream(name, part.tolist())[:4]
    assert (unpack(stored, kind, 0, values.size) == values).all()


@pytest.mark.parametrize("name", ["bf16", "f8"])
def test_long_arrays_round_as_short_ones(name):
    values = np.random.default_rng(2).normal(size=70_000).astype(np.float32)
    whole = encode(values, value_type(name))
    parts = [encode(values[at : at + 1000], value_type(name)) for at in range(0, 70_000, 1000)]
    assert (whole == np.concatenate(parts)).all()


def e5m2(code: int) -> float:
    """The value of an E5M2 code, by the definition of the format."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = code >> 2 & 31, code & 3
    if exponent == 31:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * mantissa * 2.0**-16
    return sign * (1 + mantissa / 4) * 2.0 ** (exponent - 15)


@pytest.mark.rule("dtypes.types.2")
def test_every_f8_code_decodes_by_definition():
    decoded = f32_from_f8(np.arange(256, dtype=np.uint8)).tolist()
    assert [repr(value) for value in decoded] == [repr(e5m2(code)) for code in range(256)]


def test_every_f8_value_keeps_its_code():
    codes = np.array([code for code in range(256) if not math.isnan(e5m2(code))], np.uint8)
    assert f8_from_f32(f32_from_f8(codes)).tolist() == codes.tolist()


def test_every_bf16_value_keeps_its_code():
    codes = np.arange(1 << 16, dtype=np.uint16)
    values = f32_from_bf16(codes)
    numbers = ~np.isnan(values)
    assert (bf16_from_f32(values)[numbers] == codes[numbers]).all()


def test_f8_rounds_to_nearest_ties_to_even():
    values = np.array([1.0, 1.125, 1.1251, 1.375, 1.9, 1.875, 57344, 61439, 61440, 2**-17, 2**-17 * 1.01, -1.9], "f4")
    expected = [1.0, 1.0, 1.25, 1.5, 2.0, 2.0, 57344, 57344, math.inf, 0.0, 2**-16, -2.0]
    assert f32_from_f8(f8_from_f32(values)).tolist() == expected


def test_ties_are_not_decided_by_an_earlier_rounding():
    just_above = np.array([1.125], "f4") + np.float32(2**-22)
    assert f32_from_f8(f8_from_f32(just_above)).tolist() == [1.25]


@pytest.mark.parametrize(
    ("convert", "quiet"), [(bf16_from_f32, (0x7FC0, 0xFFC0)), (f8_from_f32, (0x7E, 0xFE))], ids=["bf16", "f8"]
)
def test_nan_stays_nan_and_keeps_its_sign(convert, quiet):
    patterns = np.array([0x7F800001, 0x7FFFFFFF, 0x7FC00000, 0xFF800001, 0xFFFFFFFF], np.uint32)
    assert convert(patterns.view(np.float32)).tolist() == [quiet[0]] * 3 + [quiet[1]] * 2


@pytest.mark.parametrize(("convert", "name"), [(bf16_from_f32, "bfloat16"), (f8_from_f32, "float8_e5m2")])
@pytest.mark.parametrize("lower", [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
def test_rounding_agrees_with_ml_dtypes_for_all_upper_halves(convert, name, lower):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is the oracle")
    values = ((np.arange(1 << 16, dtype=np.uint32) << 16) | np.uint32(lower)).view(np.float32)
    with np.errstate(all="ignore"):
        oracle = values.astype(getattr(ml_dtypes, name))
    ours = convert(values)
    assert (ours == oracle.view(ours.dtype)).all()


def test_without_ml_dtypes_the_bits_are_handed_out(monkeypatch):
    arrays.numpy_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    try:
        assert arrays.numpy_dtype(value_type("bf16")) == np.uint16
        assert arrays.numpy_dtype(value_type("f8")) == np.uint8
    finally:
        arrays.numpy_dtype.cache_clear()


@given(st.binary(max_size=64).filter(lambda data: len(data) % 8 == 0), st.sampled_from(["f32", "f64", "f16"]))
def test_native_bits_are_preserved(data, name):
    kind = value_type(name)
    array = np.frombuffer(data, f"<f{kind.bits // 8}")
    assert encode(array, kind).tobytes() == data
