"""Values between host and memory: packing, conversion, statistics, text, random numbers."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BF16, BITSET, BOOL, BUILTIN, F8, F16, F32, F64, I4, I32, T1, T2, U8, U64, DType
from openinfer.errors import DTypeError, ExecutionError, OpenInferError, ShapeError
from openinfer.events import TraceEvent, split_duration
from openinfer.inspect.statistics import operator_times, summarise
from openinfer.ir.types import TensorType
from openinfer.packing import pack, unpack
from openinfer.scalars import decode_bits, encode_bits
from openinfer.simulate.formatting import format_significant, format_truncated
from openinfer.simulate.random import Random
from openinfer.simulate.values import Tensor, host_value, scalar_value, storage_of

PACKED = [dtype for dtype in BUILTIN if dtype.is_packed]


@pytest.mark.rule("dtypes.packing.1")
@given(data=st.data(), dtype=st.sampled_from(PACKED), count=st.integers(0, 20))
def test_packed_elements_form_one_bit_stream(data: st.DataObject, dtype: DType, count: int) -> None:
    codes = st.integers(0, (1 << dtype.bits) - 1).filter(lambda code: not (dtype is T2 and code == 2))
    drawn = data.draw(st.lists(codes, min_size=count, max_size=count))
    stream = sum(code << (index * dtype.bits) for index, code in enumerate(drawn))
    stored = np.frombuffer(stream.to_bytes(dtype.storage_nbytes(count), "little"), np.uint8)
    values = unpack(stored, dtype, (count,))
    assert values.tolist() == [decode_bits(dtype, code) for code in drawn]
    assert pack(values, dtype).tobytes() == stored.tobytes()


@pytest.mark.rule("dtypes.packing.2")
def test_unused_bits_are_ignored_on_reading_and_zero_on_writing() -> None:
    assert unpack(np.array([0xF7], np.uint8), I4, (1,)).tolist() == [7]
    assert pack(np.array([-1], np.int8), I4).tolist() == [0x0F]


@pytest.mark.parametrize("dtype", BUILTIN, ids=str)
def test_a_number_is_stored_as_the_bits_of_its_type(dtype: DType) -> None:
    value = 1.5 if dtype.is_float else True if dtype is BOOL else dtype.maximum
    stored = storage_of([value], TensorType(dtype, (1,)), "x")
    assert int.from_bytes(stored.tobytes(), "little") == encode_bits(dtype, value or 0)
    assert storage_of(value, TensorType(dtype), "x").tobytes() == stored.tobytes()


@given(value=st.floats(width=64), dtype=st.sampled_from([F16, BF16, F8]))
def test_a_float_is_rounded_once_or_refused_for_overflow(value: float, dtype: DType) -> None:
    try:
        stored = storage_of(value, TensorType(dtype), "x")
    except DTypeError as error:
        assert math.isfinite(value)
        assert "overflows" in str(error)  # noqa: PT017 - or the value is stored
        return
    found = float(stored.item())
    assert (math.isnan(found) and math.isnan(value)) or found == decode_bits(dtype, encode_bits(dtype, value))


@pytest.mark.parametrize(
    ("value", "kind", "error"),
    [
        ([1, 2], TensorType(F32, (3,)), ShapeError),
        ([[1], [2, 3]], TensorType(F32, (2, 2)), ShapeError),
        ([np.zeros(2), np.zeros((2, 3))], TensorType(F32, (2, 2)), ShapeError),
        (2**64, TensorType(U64), DTypeError),
        (-1, TensorType(U64), DTypeError),
        (0, TensorType(T1), DTypeError),
        (10**400, TensorType(F32), DTypeError),
        ([0.0, -(10**400)], TensorType(F64, (2,)), DTypeError),
        pytest.param(10**5000, TensorType(I32), DTypeError, id="5000 digits"),
        (256, TensorType(BITSET), DTypeError),
        (1.0, TensorType(I32), DTypeError),
        (None, TensorType(I32), DTypeError),
        ("1", TensorType(I32), DTypeError),
        (np.array([3], np.int8), TensorType(T1, (1,)), DTypeError),
        (np.array([1.0], np.float16), TensorType(BF16, (1,)), DTypeError),
        (np.array([1], np.int64), TensorType(I32, (1,)), DTypeError),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, kind: TensorType, error: type[OpenInferError]) -> None:
    with pytest.raises(error, match="`x`") as caught:
        storage_of(value, kind, "x")
    assert caught.value.code == "insert-mismatch"


def test_large_unsigned_integers_stay_exact() -> None:
    assert storage_of([2**64 - 1, 0], TensorType(U64, (2,)), "x").tolist() == [2**64 - 1, 0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (0, 0, 2)])
@pytest.mark.parametrize("dtype", [I32, F32, U64], ids=str)
def test_a_list_without_elements_suits_every_shape_without_elements(dtype: DType, shape: tuple[int, ...]) -> None:
    value: list[Any] = [[], []] if shape[0] == 2 else []
    stored = storage_of(value, TensorType(dtype, shape), "x")
    assert (stored.shape, stored.dtype) == (shape, storage_dtype(dtype))
    with pytest.raises(ShapeError):
        storage_of(value, TensorType(dtype, (3, 0)), "x")


def test_an_inserted_array_is_copied_and_contiguous() -> None:
    given_array = np.arange(6, dtype=np.int32).reshape(2, 3).T
    stored = storage_of(given_array, TensorType(I32, (3, 2)), "x")
    assert stored.flags.c_contiguous
    assert not np.shares_memory(stored, given_array)
    assert stored.tolist() == given_array.tolist()


def test_values_of_rank_zero_are_python_numbers() -> None:
    assert host_value(Tensor(F32, (), np.array(1.5, np.float32))) == 1.5
    assert host_value(Tensor(I4, (), np.array([0x0E], np.uint8))) == -2
    assert scalar_value(np.array([[True]]), BOOL) is True
    assert isinstance(scalar_value(np.array(3, np.uint8), U8), int)


@pytest.mark.rule("runtime.values.1")
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "{}"),
        ([1.0, 2.5, -0.125], "{1.00, 2.50, -0.12}"),
        ([1, 2, 3, 4], "{1, 2, 3, 4}"),
        ([1, 2, 3, 4, 5], "{1, 2 ... 4, 5}"),
        ([True, False], "{true, false}"),
        (np.arange(6.0).reshape(2, 3), "{0.00, 1.00 ... 4.00, 5.00}"),
        (7, "{7}"),
    ],
)
def test_values_are_shown_shortened(values: Any, text: str) -> None:
    assert format_truncated(values) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.0, -0.0, 0.1, -0.25], "{0.00, -0.00, 0.10, -0.25}"),
        ([0.0999, -0.0042, 7.25e-11, 999999.0], "{0.0999, -0.0042, 7.25e-11, 999999.00}"),
        ([1e6, -2.5e30, float("inf"), float("nan")], "{1e+06, -2.5e+30, inf, nan}"),
        ([1, 10**7, 3], "{1, 10000000, 3}"),
        ([False, True], "{false, true}"),
        (np.array([1e-9, 1, 2, 3, 1e-9], np.float32), "{1e-09, 1.00 ... 3.00, 1e-09}"),
    ],
)
def test_small_and_large_floats_keep_three_digits_on_request(values: Any, text: str) -> None:
    assert format_significant(values) == text


@pytest.mark.rule("runtime.values.1")
def test_packed_elements_are_shown_as_hexadecimal() -> None:
    assert format_truncated(np.array([-1, 7], np.int8), packed=True) == "{0xff, 0x07}"


@pytest.mark.rule("runtime.values.2")
@pytest.mark.parametrize("dtype", BUILTIN, ids=str)
def test_random_tensors_repeat_and_stay_in_their_range(dtype: DType) -> None:
    first, again = (Random.generate(dtype, (50, 2), seed=3) for _ in range(2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != Random.generate(dtype.name, (50, 2), seed=4).tobytes()
    low, high = (-1, 1) if dtype.is_float else (dtype.minimum or 0, dtype.maximum or 0)
    numbers = first.astype(np.float64)
    assert numbers.min() >= low
    assert numbers.max() <= float(high)


@pytest.mark.rule("runtime.values.2")
def test_the_range_of_random_integers_is_closed() -> None:
    drawn = Random.generate("i32", (200,), range=(-1, 1), seed=0)
    assert sorted(set(drawn.tolist())) == [-1, 0, 1]


FLOATS = [dtype for dtype in BUILTIN if dtype.is_float]
ORDINARY = st.floats(-1e4, 1e4, allow_subnormal=False)


@pytest.mark.rule("runtime.values.2")
@given(dtype=st.sampled_from(FLOATS), ends=st.tuples(ORDINARY, ORDINARY).map(sorted), seed=st.integers(0, 2**70))
def test_random_floats_lie_in_the_closed_range_or_it_is_refused(dtype: DType, ends: list[float], seed: int) -> None:
    low, high = ends
    try:
        drawn = Random.generate(dtype, (20,), range=(low, high), seed=seed).astype(np.float64)
    except DTypeError:
        # Only where the type has no value: both ends round away from the range to neighbours.
        nearest = decode_bits(dtype, encode_bits(dtype, low))
        assert not low <= nearest <= high
        return
    assert low <= drawn.min()
    assert drawn.max() <= high


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_random_floats_of_the_widest_range_stay_finite(dtype: DType) -> None:
    most = float(np.finfo(np.float64).max) if dtype is F64 else {F8: 57344.0, F16: 65504.0}.get(dtype, 3.3e38)
    drawn = Random.generate(dtype, (400,), range=(-most, most), seed=1).astype(np.float64)
    assert np.isfinite(drawn).all()
    assert drawn.min() < -most / 2
    assert drawn.max() > most / 2


def test_a_range_of_one_value_gives_that_value() -> None:
    assert Random.generate("f16", (3,), range=(0.1, 0.10005)).tolist() == [float(np.float16(0.1)) + 2**-14] * 3
    assert Random.generate("i32", (3,), range=(1.5, 2.5)).tolist() == [2, 2, 2]
    assert Random.generate("t1", (3,), range=(0, 1)).tolist() == [1, 1, 1]
    assert Random.generate("t1", (3,), range=(-1, 0)).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("seed", [-1, (3, -1)])
def test_a_negative_seed_is_refused(seed: Any) -> None:
    with pytest.raises(ExecutionError, match="-1"):
        Random.generate("f32", (1,), seed=seed)


def test_a_negative_extent_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"\[2, -4\]"):
        Random.generate("f32", (2, -4))


@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [
        ("u8", (0, 256)),
        ("i4", (-9, 0)),
        ("f32", (1.0, 0.0)),
        ("f33", (0, 1)),
        ("i32", (0.5, 0.7)),
        ("i32", (0, math.inf)),
        ("f32", (-math.inf, 0.0)),
        ("f32", (0.0, math.nan)),
        ("f32", (0.0, 1e39)),
        ("f16", (65505.0, 65510.0)),
        ("f16", (0.1, 0.1)),
        ("t1", (0, 0)),
    ],
)
def test_a_range_outside_the_type_is_refused(dtype: str, bounds: tuple[float, float]) -> None:
    with pytest.raises(DTypeError):
        Random.generate(dtype, (1,), range=bounds)


def test_statistics_leave_out_and_count_nans() -> None:
    summary = summarise(Tensor(F64, (3,), np.array([1.0, math.nan, 4.0])))
    assert (summary.minimum, summary.maximum, summary.mean, summary.nan) == (1.0, 4.0, 2.5, 1)
    assert summarise(Tensor(F32, (0,), np.zeros(0, np.float32))).mean is None
    assert summarise(Tensor(BOOL, (2,), np.array([True, False]))).maximum == 1


@pytest.mark.rule("runtime.traces.2")
@given(st.integers(0, 10**12))
def test_a_duration_is_split_into_three_parts(nanoseconds: int) -> None:
    ms, us, ns = split_duration(nanoseconds)
    assert ms * 1_000_000 + us * 1_000 + ns == nanoseconds
    assert max(us, ns) < 1000


def event(op: str, nanoseconds: int) -> TraceEvent:
    return TraceEvent(
        kind="OpExecute", node_index=0, node_uuid="u", block_name="entry", node_desc=f"op {op}() >> y", op_name=op,
        micros_parts=split_duration(nanoseconds),
    )  # fmt: skip


@pytest.mark.rule("runtime.traces.7")
def test_an_event_is_one_line() -> None:
    assert event("add", 31788).micros == "0ms 31us 788ns"
    assert str(event("add", 31788)) == "0 u [entry] -- op add() >> y -- (0ms 31us 788ns)"


def test_operators_are_listed_by_their_time() -> None:
    times = operator_times([event("add", 10), event("mul", 60), event("add", 30), event("", 5)])
    assert [(t.op, t.count, t.total_ns, t.share) for t in times] == [("mul", 1, 60, 0.6), ("add", 2, 40, 0.4)]


def test_f32_storage_is_ieee_little_endian() -> None:
    assert storage_of(0.1, TensorType(F32), "x").tobytes() == struct.pack("<f", 0.1)
