"""Round trips over everything that can be written, and files damaged in every place."""

from __future__ import annotations

import dataclasses
import io
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openinfer_oinf import (
    Bitset,
    OinfError,
    OinfWriter,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
    save_shards,
)
from openinfer_oinf.valuetypes import VALUE_TYPES

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=14)
ELEMENTS = [each for each in VALUE_TYPES if each.is_element]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=3)
# Every float type holds these exactly.
FLOATS = [0.0, -0.0, 1.5, -2.0, 0.25, math.inf, -math.inf, math.nan]


def numbers(kind, shape):
    """Arrays of values of a type: its extremes, what lies around 0, and for the wide floats anything."""
    if kind.name in ("f32", "f64"):
        return hnp.arrays(np.float32 if kind.name == "f32" else np.float64, shape)
    if kind.kind == "float":
        choices = np.array(FLOATS, np.float32)
    elif kind.name == "t1":
        choices = np.array([-1, 1])
    elif kind.kind == "bool":
        choices = np.array([False, True])
    else:
        near = [kind.low, kind.high, *range(max(kind.low, -1), min(kind.high, 2))]
        choices = np.array(near, np.uint64 if kind.name == "u64" else np.int64)
    picks = hnp.arrays(np.int8, shape, elements=st.integers(0, len(choices) - 1))
    return picks.map(lambda pick: choices[pick])


@st.composite
def quants(draw, kind, shape):
    """Every mode: symmetric or not, per tensor or per index of any axis, with zero points or without."""
    axis = draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    count = 1 if axis is None else shape[axis]
    scales = draw(st.lists(st.floats(0.0625, 10, width=32), min_size=count, max_size=count))
    scale = QuantScale.per_tensor(scales[0]) if axis is None else QuantScale.per_channel(axis, scales)
    scheme = draw(st.sampled_from(["symmetric", "asymmetric"]))
    if scheme == "symmetric" or draw(st.booleans()):
        return QuantParams(scheme, scale)
    points = st.integers(max(kind.low, -(1 << 31)), min(kind.high, (1 << 31) - 1))
    zeros = draw(st.lists(points, min_size=count, max_size=count))
    zero_point = QuantZeroPoint.per_tensor(zeros[0]) if axis is None else QuantZeroPoint.per_channel(axis, zeros)
    return QuantParams(scheme, scale, zero_point)


@st.composite
def tensors(draw, *, version=2):
    kind, shape = draw(st.sampled_from(ELEMENTS)), draw(SHAPES)
    has_quant = version == 2 and kind.is_integer and draw(st.booleans())
    quant = draw(quants(kind, shape)) if has_quant else None
    if draw(st.integers(0, 3)) == 0:
        return UninitializedTensor(kind.name, shape, quant=quant)
    return TensorSpec(draw(numbers(kind, shape)), dtype=kind.name, quant=quant)


@st.composite
def metadata_values(draw):
    form = draw(st.sampled_from(["scalar", "array", "str", "bitset", "plain"]))
    if form == "str":
        return draw(NAMES)
    if form == "bitset":
        return Bitset(draw(st.lists(st.booleans(), max_size=20)))
    if form == "plain":
        return draw(st.one_of(st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(width=32)))
    kind = draw(st.sampled_from(ELEMENTS))
    values = draw(numbers(kind, draw(SHAPES) if form == "array" else ()))
    return ScalarValue(values if form == "array" else values[()].item(), kind.name)


def tables(value):
    return st.dictionaries(NAMES, value, max_size=4)


def contents_of_version(version):
    return st.fixed_dictionaries(
        {
            "sizevars": tables(st.integers(0, (1 << 64) - 1)),
            "metadata": tables(metadata_values()),
            "tensors": tables(tensors(version=version)),
        }
    )


CONTENTS = contents_of_version(2)
WITH_TENSORS = CONTENTS.filter(lambda contents: len(contents["tensors"]) > 0)


def rewritten(blob: bytes) -> bytes:
    """A file written from nothing but what a reader gives."""
    target = io.BytesIO()
    with open_oinf(blob, verify="eager") as file, OinfWriter(target, allow_case_collisions=True) as writer:
        for name, value in file.sizevars.items():
            writer.sizevar(name, value)
        for name in file.metadata:
            typed = file.metadata.typed(name)
            plain = typed.dtype in ("bitset", "str")
            writer.metadata(name, typed.value if plain else ScalarValue(typed.value, typed.dtype))
        for tensor in file.tensors():
            writer.declare(tensor.name, tensor.dtype, tensor.shape, data=tensor.has_data, quant=tensor.quant)
        for tensor in file.tensors():
            if tensor.has_data:
                writer.write(tensor.name, tensor.numpy())
    return target.getvalue()


def same(read, written) -> bool:
    """Whether numbers are the same ones, NaN and the sign of zero included."""
    left, right = np.asarray(read, np.float64), np.asarray(written, np.float64)
    return left.shape == right.shape and bool(
        ((left == right) & (np.signbit(left) == np.signbit(right)) | np.isnan(left) & np.isnan(right)).all()
    )


def check_against(file, contents) -> None:
    """What a reader gives is what was written."""
    assert dict(file.sizevars) == contents["sizevars"]
    assert sorted(file.metadata) == sorted(contents["metadata"])
    assert sorted(file) == sorted(contents["tensors"])
    for name, written in contents["metadata"].items():
        typed = file.metadata.typed(name)
        if isinstance(written, str | Bitset):
            assert typed.value == written
            continue
        stated = isinstance(written, ScalarValue)
        assert not stated or typed.dtype == written.dtype
        value = written.value if stated else written
        assert typed.is_array == isinstance(value, np.ndarray)
        if isinstance(value, int) or (isinstance(value, np.ndarray) and value.dtype.kind in "iu"):
            assert np.asarray(typed.value).tolist() == np.asarray(value).tolist()
        elif typed.dtype not in ("bf16", "f8") or not typed.is_array:  # bits without ml_dtypes
            assert same(typed.value, value)
    for name, written in contents["tensors"].items():
        tensor = file.tensor(name)
        assert tensor.has_data == isinstance(written, TensorSpec)
        assert tensor.dtype == written.dtype
        check_quant(tensor, written.quant)
        if isinstance(written, TensorSpec):
            read = tensor.numbers(0, tensor.size).reshape(tensor.shape)
            exact = np.asarray(written.data).dtype.kind in "iu"
            assert read.tolist() == written.data.tolist() if exact else same(read, written.data)
        else:
            assert tensor.shape == written.shape


def check_quant(tensor, written) -> None:
    assert (tensor.quant is None) == (written is None)
    if written is None:
        return
    assert tensor.quant.scheme == written.scheme
    for read, stated in ((tensor.quant.scale, written.scale), (tensor.quant.zero_point, written.zero_point)):
        assert (read is None) == (stated is None)
        if stated is not None:
            assert read.axis == (None if stated.axis is None else stated.axis % tensor.ndim)
            assert read.values.tolist() == stated.values.tolist()


@pytest.mark.parametrize("version", [1, 2])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_read_is_what_was_written(version, data):
    contents = data.draw(contents_of_version(version))
    blob = dataclass_to_oinf(contents, allow_case_collisions=True, version=version)
    with open_oinf(blob, verify="eager") as file:
        assert file.version == version
        check_against(file, contents)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    contents=WITH_TENSORS,
    shard_nbytes=st.integers(1, 300),
    version=st.sampled_from([1, 2]),
)
def test_what_is_read_of_shards_is_what_was_written(contents, shard_nbytes, version, tmp_path_factory):
    if version == 1:
        plain = {name: dataclasses.replace(each, quant=None) for name, each in contents["tensors"].items()}
        contents = contents | {"tensors": plain}
    index = tmp_path_factory.mktemp("shards") / "m.oinf.index.json"
    tables = {"sizevars": contents["sizevars"], "metadata": contents["metadata"]}
    options = {"allow_case_collisions": True, "version": version}
    save_shards(contents["tensors"], index, shard_nbytes=shard_nbytes, **tables, **options)
    with open_oinf(index, verify="eager") as file:
        assert file.version == version
        check_against(file, contents)


@pytest.mark.rule("container.writing.4")
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTENTS)
def test_writing_what_was_read_is_the_identity(contents):
    pytest.importorskip("ml_dtypes", reason="bf16 and f8 arrays keep their type with ml_dtypes only")
    blob = dataclass_to_oinf(contents, allow_case_collisions=True)
    assert rewritten(blob) == blob


def test_the_strategies_draw_every_type_and_mode():
    """What the properties above are about would go unnoticed if it were never drawn."""
    seen: set[object] = set()

    often = {"deadline": None, "database": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=800, **often)
    @given(tensors())
    def draw_tensors(tensor):
        kind, quant = type(tensor).__name__, tensor.quant
        seen.add((kind, tensor.dtype))
        seen.add(("ndim", np.ndim(tensor.data) if isinstance(tensor, TensorSpec) else len(tensor.shape)))
        if quant is not None:
            seen.add((kind, quant.scheme, quant.scale.axis is None, quant.zero_point is None))

    @settings(max_examples=2000, **often)
    @given(metadata_values())
    def draw_metadata(value):
        if isinstance(value, ScalarValue):
            seen.add((isinstance(value.value, np.ndarray), value.dtype))
        seen.add(type(value).__name__)

    draw_tensors()
    draw_metadata()
    kinds = ("TensorSpec", "UninitializedTensor")
    modes = [("symmetric", True), ("asymmetric", True), ("asymmetric", False)]
    assert {(kind, each.name) for kind in kinds for each in ELEMENTS} <= seen
    assert {(array, each.name) for array in (True, False) for each in ELEMENTS} <= seen
    assert {("ndim", rank) for rank in range(6)} <= seen
    assert {(kind, scheme, one, none) for kind in kinds for scheme, none in modes for one in (True, False)} <= seen
    assert {"str", "Bitset", "bool", "int", "float"} <= seen


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTENTS, st.randoms())
def test_the_order_of_dicts_does_not_matter(contents, random):
    def shuffled(table):
        items = list(table.items())
        random.shuffle(items)
        return dict(items)

    other = {name: shuffled(table) for name, table in shuffled(contents).items()}
    write = {"allow_case_collisions": True}
    assert dataclass_to_oinf(other, **write) == dataclass_to_oinf(contents, **write)


def small_file(version: int) -> bytes:
    quant = None if version == 1 else QuantParams("symmetric", QuantScale.per_channel(0, [0.5, 2]))
    return dataclass_to_oinf(
        {
            "sizevars": {"B": 4},
            "metadata": {"a": [1, 2, 300], "b": Bitset([1, 0, 1]), "mode": "fast", "x": True, "z": 0.5},
            "tensors": {
                "W.0": TensorSpec(np.array([[1], [-2]]), dtype="i4", quant=quant),
                "bool": TensorSpec(np.array([True, False, True])),
                "e": UninitializedTensor("f16", (2, 2)),
            },
        },
        version=version,
    )


def read_everything(blob: bytes, **options) -> OinfError | None:
    """The error that a file is refused with, or None when all of it can be read."""
    try:
        with open_oinf(blob, verify="eager", **options) as file:
            for name in file.metadata:
                file.metadata.typed(name)
            for tensor in file.tensors():
                file.get(tensor.name)
    except OinfError as error:
        return error
    return None


@pytest.mark.rule("container.reading.3")
@pytest.mark.parametrize("version", [1, 2])
def test_truncation_anywhere_is_an_error_of_ours(version):
    blob = small_file(version)
    for size in range(len(blob)):
        with pytest.raises(OinfError):
            open_oinf(blob[:size], verify="eager")


@pytest.mark.rule("container.reading.3")
@pytest.mark.parametrize("check", ["strict", "compat"])
@pytest.mark.parametrize("version", [1, 2])
def test_any_single_damaged_byte_is_an_error_of_ours_or_another_valid_file(version, check):
    blob = small_file(version)
    refused = 0
    for at in range(len(blob)):
        for change in (1, 0x80, 0xFF):
            damaged = blob[:at] + bytes([blob[at] ^ change]) + blob[at + 1 :]
            refused += read_everything(damaged, check=check) is not None
    assert refused > len(blob)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_damage_is_an_error_of_ours_or_another_valid_file(data):
    blob = bytearray(small_file(data.draw(st.sampled_from([1, 2]))))
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(blob) - 8))
        blob[at : at + data.draw(st.sampled_from([1, 4, 8]))] = data.draw(
            st.sampled_from([b"", b"\0", b"\xff" * 4, b"\xff" * 8, b"\0" * 8, b"\1\0\0\0", b"\0\0\0\x80"])
        )
    error = read_everything(bytes(blob))
    assert error is None or error.code.startswith("E_")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_an_error_of_ours(data):
    with pytest.raises(OinfError):
        open_oinf(b"OINF\0\2\0\0\0" + data, check="compat", verify="eager")
