"""Round trips over everything that can be written, and files damaged in every place."""

from __future__ import annotations

import io

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
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
)
from openinfer_oinf.valuetypes import VALUE_TYPES

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=14)
TYPES = [each for each in VALUE_TYPES if each.is_element]


@st.composite
def tensors(draw):
    kind = draw(st.sampled_from(TYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    if draw(st.integers(0, 5)) == 0:
        return UninitializedTensor(kind.name, shape)
    if kind.kind == "float":
        values = draw(hnp.arrays(np.float32, shape))
        return TensorSpec(values, dtype=kind.name)
    choices = [-1, 1] if kind.name == "t1" else [kind.low, kind.high, *range(max(kind.low, -1), min(kind.high, 2))]
    pick = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, len(choices) - 1)))
    values = np.array(choices, np.uint64 if kind.name == "u64" else np.int64)[pick]
    quant = None
    if kind.is_integer and draw(st.booleans()):
        quant = QuantParams("symmetric", QuantScale.per_tensor(draw(st.floats(0.0625, 10, width=32))))
    return TensorSpec(values, dtype=kind.name, quant=quant)


METADATA = st.one_of(
    st.booleans(),
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.floats(width=32),
    NAMES,
    st.lists(st.booleans(), max_size=20).map(Bitset),
    st.lists(st.integers(-8, 7), max_size=9).map(lambda values: ScalarValue(np.array(values, int), "i4")),
    hnp.arrays(st.sampled_from([np.uint8, np.int32, np.float64]), hnp.array_shapes(max_dims=3, max_side=3)),
)


def tables(value):
    return st.dictionaries(NAMES, value, max_size=4)


CONTENTS = st.fixed_dictionaries(
    {"sizevars": tables(st.integers(0, (1 << 64) - 1)), "metadata": tables(METADATA), "tensors": tables(tensors())}
)


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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONTENTS)
def test_writing_what_was_read_is_the_identity(contents):
    pytest.importorskip("ml_dtypes", reason="bf16 and f8 arrays keep their type with ml_dtypes only")
    blob = dataclass_to_oinf(contents, allow_case_collisions=True)
    assert rewritten(blob) == blob


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


@pytest.mark.parametrize("version", [1, 2])
def test_truncation_anywhere_is_an_error_of_ours(version):
    blob = small_file(version)
    for size in range(len(blob)):
        with pytest.raises(OinfError):
            open_oinf(blob[:size], verify="eager")


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
