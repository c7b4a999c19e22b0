"""Every value type as metadata scalar, metadata array and tensor; payload bytes spelt out independently."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from openinfer_oinf import (
    Bitset,
    OinfError,
    ScalarValue,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    open_oinf,
)

# Two values of each type and the bytes of each as one element.
SAMPLES = {
    "i8": (-2, 100, "<b"),
    "i16": (-300, 5, "<h"),
    "i32": (-70000, 5, "<i"),
    "i64": (-(1 << 40), 5, "<q"),
    "u8": (200, 1, "<B"),
    "u16": (60000, 1, "<H"),
    "u32": (1 << 31, 1, "<I"),
    "u64": (1 << 63, 1, "<Q"),
    "f16": (1.5, -0.0, "<e"),
    "f32": (0.1, math.inf, "<f"),
    "f64": (0.1, math.nan, "<d"),
}
PACKED = {
    "i4": (-8, 7),
    "i2": (-2, 1),
    "i1": (-1, 0),
    "u4": (15, 3),
    "u2": (3, 1),
    "u1": (1, 0),
    "t2": (-1, 1),
    "t1": (-1, 1),
}
NAMES = "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 bool bitset str ndarray bf16 f8 i4 i2 i1 u4 u2 u1 t2 t1"
TAGS = {name: tag for tag, name in enumerate(NAMES.split(), start=1)}


def payload(blob: bytes, key: str) -> tuple[int, bytes]:
    with open_oinf(blob) as file:
        entry = file.metadata.entry(key)
        return entry.tag, blob[entry.offset : entry.offset + entry.nbytes]


@pytest.mark.rule("container.values.2")
@pytest.mark.parametrize(("name", "sample"), SAMPLES.items())
def test_metadata_scalars(name, sample):
    first, _, form = sample
    blob = dataclass_to_oinf({"m": ScalarValue(first, name)})
    assert payload(blob, "m") == (TAGS[name], struct.pack(form, first))
    with open_oinf(blob) as file:
        typed = file.metadata.typed("m")
        assert typed.dtype == name
        assert struct.pack(form, typed.value) == struct.pack(form, first)


@pytest.mark.rule("container.values.2")
@pytest.mark.parametrize(("name", "values"), PACKED.items())
def test_packed_metadata_scalars_take_one_byte(name, values):
    for value in values:
        blob = dataclass_to_oinf({"m": ScalarValue(value, name)})
        code = int(value == 1) if name == "t1" else value & ((1 << int(name[1])) - 1)
        assert payload(blob, "m") == (TAGS[name], bytes([code]))
        with open_oinf(blob) as file:
            assert file.metadata["m"] == value


@pytest.mark.parametrize(
    ("value", "dtype", "stored"),
    [
        (True, "bool", b"\1"),
        (False, "bool", b"\0"),
        (0, "u8", b"\0"),
        (256, "u16", b"\0\1"),
        (1 << 32, "u64", b"\0\0\0\0\1\0\0\0"),
        (-1, "i8", b"\xff"),
        (-129, "i16", b"\x7f\xff"),
        (0.5, "f32", b"\0\0\0\x3f"),
        (np.float64(0.5), "f32", b"\0\0\0\x3f"),
        (np.int64(7), "u8", b"\7"),
    ],
)
def test_default_metadata_types(value, dtype, stored):
    blob = dataclass_to_oinf({"m": value})
    assert payload(blob, "m") == (TAGS[dtype], stored)


@pytest.mark.parametrize(("value", "stored"), [(1.5, b"\xc0\x3f"), (-0.0, b"\0\x80")])
def test_bf16_metadata(value, stored):
    blob = dataclass_to_oinf({"m": ScalarValue(value, "bf16")})
    assert payload(blob, "m") == (16, stored)
    with open_oinf(blob) as file:
        assert math.copysign(1, file.metadata["m"]) == math.copysign(1, value)


@pytest.mark.parametrize("alias", ["f8", "f8e5m2", "float8e5m2", " F8E5M2 ", 17])
def test_f8_metadata_and_its_aliases(alias):
    blob = dataclass_to_oinf({"m": ScalarValue(1.9, alias)})
    assert payload(blob, "m") == (17, b"\x40")
    with open_oinf(blob) as file:
        assert file.metadata["m"] == 2.0


@pytest.mark.rule("container.values.2", "container.values.3")
@pytest.mark.parametrize("text", ["a", "fast", "twelve-chars", "thirteen.char"])
def test_strings(text):
    blob = dataclass_to_oinf({"m": text})
    expected = struct.pack("<I", len(text)) + text.encode()
    assert payload(blob, "m") == (14, expected + bytes(-len(expected) % 8))
    with open_oinf(blob) as file:
        assert file.metadata["m"] == text


@pytest.mark.rule("container.values.4")
def test_free_text_has_keys_of_its_own():
    blob = dataclass_to_oinf({"metadata": {"note.utf8": "naïve\n☃"}})
    with open_oinf(blob) as file:
        assert file.metadata["note.utf8"] == "naïve\n☃"
        assert file.metadata.typed("note.utf8").dtype == "u8"


def test_text_that_has_no_utf8_is_refused():
    with pytest.raises(OinfError, match="half of a surrogate pair at 2") as caught:
        dataclass_to_oinf({"metadata": {"note.utf8": "ab\ud800"}})
    assert (caught.value.code, caught.value.entry) == ("E_VALUE", "note.utf8")


@pytest.mark.rule("container.values.2", "container.values.3")
@pytest.mark.parametrize(("bits", "stored"), [("", ""), ("1", "01"), ("00000001", "80"), ("101010101", "5501")])
def test_bitsets(bits, stored):
    value = Bitset(int(bit) for bit in bits)
    blob = dataclass_to_oinf({"m": value})
    raw = bytes.fromhex(stored)
    expected = struct.pack("<II", len(bits), len(raw)) + raw
    assert payload(blob, "m") == (13, expected + bytes(-len(expected) % 8))
    with open_oinf(blob) as file:
        assert file.metadata["m"] == value


@pytest.mark.rule("container.values.2", "container.values.3")
@pytest.mark.parametrize(
    ("value", "element", "shape", "data"),
    [
        ([1, 2, 300], "i16", (3,), struct.pack("<3h", 1, 2, 300)),
        ([1, -128], "i8", (2,), b"\1\x80"),
        ([1 << 40], "i64", (1,), struct.pack("<q", 1 << 40)),
        ([0.5, 1], "f32", (2,), struct.pack("<2f", 0.5, 1)),
        ([], "f32", (0,), b""),
        ([[True], [False]], "bool", (2, 1), b"\1\0"),
        (np.array(5, "u2"), "u16", (), b"\5\0"),
        (np.array([5], ">u4"), "u32", (1,), b"\5\0\0\0"),
        (np.asfortranarray(np.arange(6, dtype="i1").reshape(2, 3)), "i8", (2, 3), bytes(range(6))),
        (ScalarValue([-8, -1, 7], "i4"), "i4", (3,), b"\xf8\7"),
        (ScalarValue([1.0, 2.0], "bf16"), "bf16", (2,), b"\x80\x3f\0\x40"),
    ],
)
def test_metadata_arrays(value, element, shape, data):
    blob = dataclass_to_oinf({"metadata": {"m": value}})
    expected = struct.pack("<II", TAGS[element], len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + data
    assert payload(blob, "m") == (15, expected + bytes(-len(expected) % 8))
    with open_oinf(blob) as file:
        typed = file.metadata.typed("m")
        assert (typed.dtype, typed.value.shape, typed.is_array) == (element, shape, True)


@pytest.mark.parametrize("value", [b"bytes", None, 1j, object(), ["a"], [[1], [1, 2]], {"a": 1}, [None]])
def test_metadata_without_a_type_is_refused(value):
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"metadata": {"m": value}})
    assert caught.value.entry == "m"
    assert caught.value.code in ("E_META_TYPE", "E_DTYPE")


@pytest.mark.parametrize(
    "value",
    [
        1 << 64,
        -(1 << 63) - 1,
        1e300,
        [1e300],
        "two words",
        "",
        "naïve",
        ScalarValue(256, "u8"),
        ScalarValue(-2, "t2"),
        ScalarValue(0, "t1"),
    ],
)
def test_metadata_that_does_not_fit_is_refused(value):
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"m": value})
    assert caught.value.code == "E_VALUE"


@pytest.mark.rule("container.layout.6", "container.values.1")
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (1, 2, 3), (2, 1, 2, 2), (1, 2, 1, 2, 3), (0,), (3, 0, 2)])
@pytest.mark.parametrize("name", [*SAMPLES, *PACKED, "bool", "bf16", "f8"])
@pytest.mark.parametrize("version", [1, 2])
def test_tensors_of_every_type_and_rank(name, shape, version):
    pool = SAMPLES.get(name, PACKED.get(name, (0, 1)))[:2]
    values = np.resize(np.array(pool, "u8" if name == "u64" else None), shape)
    blob = dataclass_to_oinf({"t": TensorSpec(values, dtype=name)}, version=version)
    with open_oinf(blob, verify="eager") as file:
        tensor = file.tensor("t")
        bits = int(name[1:]) if name[1:].isdigit() else {"bool": 8, "bf16": 16}[name]
        assert (tensor.dtype, tensor.shape) == (name, shape)
        assert tensor.nbytes == (values.size * bits + 7) // 8
        assert tensor.is_packed == (name in PACKED)
        read = file["t"]
        assert read.shape == shape
        assert not read.flags.writeable
        numbers = tensor.numbers(0, values.size)
        assert numbers.tobytes() == values.astype(numbers.dtype).tobytes()
        if name not in ("bf16", "f8"):  # arrays of bits where ml_dtypes is absent
            assert read.tobytes() == numbers.tobytes()


@pytest.mark.rule("container.values.3")
@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9])
def test_packed_sizes(name, size):
    values = np.resize(np.array(PACKED[name]), size)
    with open_oinf(dataclass_to_oinf({"t": TensorSpec(values, dtype=name)}), verify="eager") as file:
        assert file["t"].tolist() == values.tolist()
        assert file.raw("t").size == -(-size * int(name[1]) // 8)


@pytest.mark.rule("container.layout.7")
def test_declared_tensors_have_no_data():
    blob = dataclass_to_oinf({"cache": UninitializedTensor("f16", (8, 1 << 50)), "s": UninitializedTensor("i4", ())})
    with open_oinf(blob) as file:
        assert list(file) == ["cache", "s"]
        assert not file.tensor("cache").has_data
        assert (file.tensor("cache").offset, file.tensor("cache").nbytes) == (0, 0)


@pytest.mark.parametrize(
    ("data", "dtype", "code"),
    [
        (np.array([1.5]), "i8", "E_DTYPE"),
        (np.array([128]), "i8", "E_VALUE"),
        (np.array([-1]), "u64", "E_VALUE"),
        (np.array([8]), "i4", "E_VALUE"),
        (np.array([-2]), "t2", "E_VALUE"),
        (np.array([0]), "t1", "E_VALUE"),
        (np.array([2]), "bool", "E_VALUE"),
        (np.array(["a"]), None, "E_DTYPE"),
        (np.array([None]), None, "E_DTYPE"),
        (np.array([1j]), None, "E_DTYPE"),
        (np.zeros(1, [("a", "i4")]), None, "E_DTYPE"),
        (np.array([1, 2], "u2"), "bf16", "E_DTYPE"),
        (np.array([1, 2]), "str", "E_DTYPE"),
        (np.array([1, 2]), "bitset", "E_DTYPE"),
        (np.array([1, 2]), "i5", "E_DTYPE"),
        (np.zeros((1,) * 33), None, "E_NDIM"),
    ],
)
def test_tensors_that_cannot_be_written(data, dtype, code):
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"t": TensorSpec(data, dtype=dtype)})
    assert (caught.value.code, caught.value.entry) == (code, "t")


def test_ml_dtypes_arrays_keep_their_type():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the optional package is absent")
    arrays = {
        "b": np.array([1.5, math.nan], ml_dtypes.bfloat16),
        "e": np.array([1.5, math.inf], ml_dtypes.float8_e5m2),
        "i": np.array([-8, 7], ml_dtypes.int4),
    }
    with open_oinf(dataclass_to_oinf(arrays)) as file:
        assert [file.tensor(name).dtype for name in file] == ["bf16", "f8", "i4"]
        assert file["b"].tobytes() == arrays["b"].tobytes()
        assert file["e"].tobytes() == arrays["e"].tobytes()
        assert file["i"].tolist() == [-8, 7]
