"""Conversion from safetensors and NumPy files, names, casts, and the command."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer_oinf import OinfError, open_oinf
from openinfer_oinf.cli import main
from openinfer_oinf.convert.conversion import ConversionOptions, convert_to_oinf
from openinfer_oinf.convert.eightbit import f16_of_e4m3fn
from openinfer_oinf.convert.model import Change, ReadOptions
from openinfer_oinf.convert.naming import plain_name


def safetensors(entries: dict, data: bytes, *, header: bytes | None = None) -> bytes:
    """The format by its definition: u64 length, JSON, data."""
    text = json.dumps(entries).encode() if header is None else header
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str, shape: list[int], first: int, last: int) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}


@pytest.fixture
def convert(tmp_path):
    """Converts bytes of a foreign file; returns the open container and the changes as text."""
    opened = []

    def run(data: bytes, name: str, **options):
        (tmp_path / name).write_bytes(data)
        target = tmp_path / "out.oinf"
        changes = convert_to_oinf(tmp_path / name, target, ConversionOptions(**options))
        opened.append(open_oinf(target, verify="eager"))
        return opened[-1], [str(change) for change in changes]

    yield run
    for file in opened:
        file.close()


NATIVE = {
    "BOOL": ("bool", b"\1\0"),
    "I8": ("i8", b"\xff\1"),
    "I16": ("i16", b"\xff\0\1\0"),
    "I32": ("i32", bytes(range(8))),
    "I64": ("i64", bytes(range(16))),
    "U8": ("u8", b"\xff\1"),
    "U16": ("u16", bytes(range(4))),
    "U32": ("u32", bytes(range(8))),
    "U64": ("u64", bytes(range(16))),
    "F16": ("f16", bytes(range(4))),
    "BF16": ("bf16", bytes(range(4))),
    "F8_E5M2": ("f8", b"\x7f\x3c"),
    "F32": ("f32", struct.pack("<ff", math.nan, -0.0)),
    "F64": ("f64", struct.pack("<dd", math.inf, 0.1)),
}


@pytest.mark.parametrize("code", NATIVE)
def test_safetensors_types_keep_every_bit(convert, code):
    dtype, data = NATIVE[code]
    file, changes = convert(safetensors({"w": entry(code, [2, 1], 0, len(data))}, data), "m.safetensors")
    tensor = file.tensor("w")
    assert (tensor.dtype, tensor.shape, tensor.raw().tobytes()) == (dtype, (2, 1), data)
    assert changes == []


def test_e4m3_becomes_f16_exactly(convert):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the oracle of 8-bit floats is ml_dtypes")
    codes = np.arange(256, dtype=np.uint8)
    expected = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    file, changes = convert(safetensors({"w": entry("F8_E4M3", [256], 0, 256)}, codes.tobytes()), "m.safetensors")
    assert file.tensor("w").dtype == "f16"
    np.testing.assert_array_equal(file["w"].astype(np.float32), expected)
    assert np.signbit(file["w"][128])
    assert changes == ["cast w: F8_E4M3 to f16, which holds its values exactly"]


def test_recorded_e4m3_values():
    values = f16_of_e4m3fn().view(np.float16)
    assert [values[code] for code in (0x00, 0x01, 0x08, 0x38, 0x7E, 0xB8)] == [0, 2**-9, 2**-6, 1, 448, -1]
    assert np.isnan(values[[0x7F, 0xFF]]).all()


def test_types_without_counterpart_are_refused_dropped_or_kept_as_bytes(convert):
    data = safetensors({"w": entry("C64", [1], 0, 8), "v": entry("F32", [1], 8, 12)}, bytes(12))
    with pytest.raises(OinfError, match="C64 has no value type") as caught:
        convert(data, "m.safetensors")
    assert (caught.value.code, caught.value.entry) == ("E_SOURCE", "w")
    file, changes = convert(data, "m.safetensors", read=ReadOptions(skip_unsupported=True))
    assert list(file) == ["v"]
    assert changes[0].startswith("dropped w: C64")
    file, changes = convert(data, "m.safetensors", read=ReadOptions(raw=True))
    assert (file.tensor("w").dtype, file.tensor("w").shape) == ("u8", (8,))
    assert changes == ["cast w: C64[1] to its 8 bytes as u8"]


def test_texts_of_the_header_become_metadata(convert):
    file, changes = convert(safetensors({"__metadata__": {"a note": "für alle"}}, b""), "m.safetensors")
    assert dict(file.metadata) == {"a_note.utf8": "für alle"}
    assert changes == ["renamed a note: metadata a_note.utf8"]


W = entry("F32", [1], 0, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1\0\0\0\0\0\0\0",
        struct.pack("<Q", 1 << 60) + b"{}",
        safetensors({}, b"", header=b"[]"),
        safetensors({}, b"", header=b"{"),
        safetensors({}, b"", header=b"{" * 100_000),
        safetensors({}, b"", header=b'{"a":' * 100_000),
        safetensors({}, b"", header=b"\xff\xfe"),
        safetensors({}, b"1234", header=b'{"w":%s,"w":%s}' % ((json.dumps(W).encode(),) * 2)),
        safetensors({"w": W}, b"12345678"),
        safetensors({"w": W}, b"123"),
        safetensors({"w": entry("F32", [1], 4, 8)}, bytes(8)),
        safetensors({"w": W, "v": entry("F32", [1], 0, 4)}, bytes(4)),
        safetensors({"w": W, "v": entry("F32", [1], 2, 6)}, bytes(6)),
        safetensors({"w": entry("F32", [2], 0, 4)}, bytes(4)),
        safetensors({"w": entry("F32", [1 << 62, 1 << 62], 0, 4)}, bytes(4)),
        safetensors({"w": entry("F32", [-1], 0, 4)}, bytes(4)),
        safetensors({"w": entry("F32", [True], 0, 4)}, bytes(4)),
        safetensors({"w": entry("F32", [1], 4, 0)}, bytes(4)),
        safetensors({"w": {**W, "data_offsets": [0]}}, bytes(4)),
        safetensors({"w": {**W, "more": 1}}, bytes(4)),
        safetensors({"w": 1}, b""),
        safetensors({"__metadata__": {"a": 1}}, b""),
        safetensors({"__metadata__": []}, b""),
    ],
)
def test_broken_safetensors_are_errors_of_ours(convert, data, tmp_path):
    with pytest.raises(OinfError) as caught:
        convert(data, "m.safetensors")
    assert caught.value.code == "E_SOURCE"
    assert not (tmp_path / "out.oinf").exists()


@given(at=st.integers(0, 200), value=st.integers(0, 255))
def test_damaged_safetensors_are_errors_of_ours_or_other_valid_files(at, value, tmp_path_factory):
    data = bytearray(safetensors({"w": W, "v": entry("I8", [2, 1], 4, 6), "__metadata__": {"k": "v"}}, bytes(6)))
    data[at % len(data)] = value
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "m.safetensors").write_bytes(data)
    try:
        convert_to_oinf(folder / "m.safetensors", folder / "out.oinf")
    except OinfError:
        assert not (folder / "out.oinf").exists()


def test_shards_of_safetensors(convert, tmp_path):
    (tmp_path / "1.safetensors").write_bytes(safetensors({"w": W}, b"1234"))
    (tmp_path / "2.safetensors").write_bytes(safetensors({"v": W}, b"5678"))
    index = {"weight_map": {"w": "1.safetensors", "v": "2.safetensors"}}
    file, _ = convert(json.dumps(index).encode(), "m.safetensors.index.json")
    assert {name: file.raw(name).tobytes() for name in file} == {"v": b"5678", "w": b"1234"}


@pytest.mark.parametrize(
    "weight_map",
    [
        {"w": "../1.safetensors"},
        {"w": "/etc/passwd"},
        {"w": ".."},
        {"w": ""},
        {"w": 1},
        {"w": "1.safetensors", "x": "1.safetensors"},
        {"x": "1.safetensors"},
        {},
        [],
    ],
)
def test_shard_indexes_that_lie(convert, tmp_path, weight_map):
    (tmp_path / "1.safetensors").write_bytes(safetensors({"w": W}, b"1234"))
    if weight_map == {}:
        file, _ = convert(json.dumps({"weight_map": {}}).encode(), "m.safetensors.index.json")
        assert len(file) == 0
        return
    with pytest.raises(OinfError) as caught:
        convert(json.dumps({"weight_map": weight_map}).encode(), "m.safetensors.index.json")
    assert caught.value.code == "E_SOURCE"


ARRAYS = {
    "a/b": np.arange(6, dtype=np.int16).reshape(2, 3),
    "big": np.array([1.5, -2], ">f4"),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "scalar": np.array(7, np.uint8),
    "yes": np.array([True, False]),
    "none": np.zeros((0, 3), np.float16),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(convert, save):
    target = io.BytesIO()
    save(target, **ARRAYS)
    file, changes = convert(target.getvalue(), "m.npz")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(file[name.replace("/", ".")], array)
    assert set(changes) == {
        "renamed a/b: a.b",
        "copied big: bytes swapped from big-endian",
        "copied fortran: from Fortran to C order",
    }


def test_npy_has_the_name_of_its_file(convert):
    target = io.BytesIO()
    np.save(target, np.arange(3))
    file, _ = convert(target.getvalue(), "layer 1.npy")
    assert file["layer_1"].tolist() == [0, 1, 2]


def test_long_arrays_stream_in_blocks(convert, monkeypatch):
    monkeypatch.setattr("openinfer_oinf.convert.readers.numpy_file.BLOCK_NBYTES", 64)
    monkeypatch.setattr("openinfer_oinf.convert.readers.safetensors_file.BLOCK_NBYTES", 64)
    array = np.arange(1001, dtype=np.int32)
    target = io.BytesIO()
    np.savez_compressed(target, w=array)
    file, _ = convert(target.getvalue(), "m.npz")
    assert (file["w"] == array).all()
    file, _ = convert(safetensors({"w": entry("I32", [1001], 0, 4004)}, array.tobytes()), "m.safetensors")
    assert (file["w"] == array).all()


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}], object),
        np.array(["text"]),
        np.array([1j]),
        np.array([(1, 2)], "i4,i4"),
        np.array([1], "datetime64[s]"),
    ],
)
def test_arrays_of_other_things_than_numbers_are_refused(convert, array):
    target = io.BytesIO()
    np.savez(target, w=array)
    with pytest.raises(OinfError) as caught:
        convert(target.getvalue(), "m.npz")
    assert caught.value.code == "E_SOURCE"
    if array.dtype.kind != "V":
        file, changes = convert(target.getvalue(), "m.npz", read=ReadOptions(skip_unsupported=True))
        assert len(file) == 0
        assert changes[0].startswith("dropped w: ")


def npz_with(member: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w.npy", member)
    return target.getvalue()


def npy_header(text: str) -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "member",
    [
        b"",
        b"no array",
        npy_header("__import__('os').system('true')"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 40,)}"),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"),
        npy_header("{'descr': '<f4', 'fortran_order': True, 'shape': (-1, -1)}") + bytes(4),
        npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}") + bytes(4),
        npy_header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}") + b"cos\nsystem\n(S'true'\ntR.",
    ],
)
def test_broken_members_are_errors_of_ours(convert, member):
    with pytest.raises(OinfError) as caught:
        convert(npz_with(member), "m.npz")
    assert caught.value.code == "E_SOURCE"


def test_zip_bombs_meet_a_limit(convert):
    bomb = npz_with(npy_header("{'descr': '|u1', 'fortran_order': False, 'shape': (1000000,)}") + bytes(1_000_000))
    assert len(bomb) < 3000
    with pytest.raises(OinfError, match="unpacks to") as caught:
        convert(bomb, "m.npz", read=ReadOptions(unpacked_nbytes=100_000))
    assert (caught.value.code, caught.value.entry) == ("E_SOURCE", "w")
    assert convert(bomb, "m.npz")[0]["w"].shape == (1_000_000,)


def test_a_damaged_archive(convert):
    target = io.BytesIO()
    np.savez_compressed(target, w=np.arange(1000))
    data = bytearray(target.getvalue())
    data[100:110] = bytes(10)
    with pytest.raises(OinfError) as caught:
        convert(bytes(data), "m.npz")
    assert caught.value.code == "E_SOURCE"


def test_a_source_of_no_known_format(convert):
    with pytest.raises(OinfError, match="of no known format"):
        convert(b"something", "m.xyz")


def test_a_source_that_is_a_container_already(convert, raw):
    with pytest.raises(OinfError, match="container already"):
        convert(raw.File().build(), "m.oinf")


@given(st.text(min_size=1, max_size=20))
def test_mapped_names_keep_to_the_alphabet_and_plain_ones_stay(name):
    mapped = plain_name(name)
    assert len(mapped) == len(name)
    assert all(char.isascii() and (char.isalnum() or char in "._-") for char in mapped)
    assert plain_name(mapped) == mapped


def test_names_that_become_one_are_an_error(convert):
    data = safetensors({"a b": W, "a_b": entry("F32", [1], 4, 8)}, bytes(8))
    with pytest.raises(OinfError, match="both become 'a_b'") as caught:
        convert(data, "m.safetensors")
    assert caught.value.code == "E_DUPLICATE"
    file, changes = convert(data, "m.safetensors", renames={"a b": "first"})
    assert list(file) == ["a_b", "first"]
    assert changes == ["renamed a b: first"]


def test_names_are_shown_without_control_characters(convert):
    data = safetensors({"a\x1b[31m": entry("F4", [2], 0, 1)}, bytes(1))
    with pytest.raises(OinfError) as caught:
        convert(data, "m.safetensors")
    assert "\x1b" not in str(caught.value)


def test_renaming_what_is_not_there_is_an_error(convert):
    with pytest.raises(OinfError, match="does not have"):
        convert(safetensors({"w": W}, bytes(4)), "m.safetensors", renames={"v": "u"})


def test_casts(convert):
    data = safetensors({"w": W, "v": entry("BF16", [2], 4, 8)}, struct.pack("<fHH", 0.1, 0x3F80, 0xC000))
    file, changes = convert(data, "m.safetensors", dtypes=[("w", "bf16"), ("*", "f32")])
    assert file.raw("w").tobytes() == struct.pack("<H", 0x3DCD)
    assert file["v"].tolist() == [1.0, -2.0]
    assert set(changes) == {"cast w: f32 to bf16", "cast v: bf16 to f32"}


def test_casts_that_lose_values_are_errors(convert, tmp_path):
    with pytest.raises(OinfError, match="quantise") as caught:
        convert(safetensors({"w": W}, bytes(4)), "m.safetensors", dtypes=[("*", "i8")])
    assert (caught.value.code, caught.value.entry) == ("E_DTYPE", "w")
    assert not (tmp_path / "out.oinf").exists()


def test_the_command(tmp_path, capsys):
    source, target = str(tmp_path / "m.safetensors"), str(tmp_path / "m.oinf")
    (tmp_path / "m.safetensors").write_bytes(safetensors({"a/w": W}, struct.pack("<f", 2)))
    options = ["--rename", "a/w=w", "--sizevar", "B=4", "--meta", "mode=fast", "--meta", "n=[1,2]", "--checksums"]
    assert main(["convert", source, target, *options, "--dtype", "a*=f16"]) == 0
    *changes, written = capsys.readouterr().out.splitlines()
    assert changes == ["renamed a/w: w", "cast a/w: f32 to f16"]
    assert written.startswith(f"written {target} (")
    with open_oinf(target) as file:
        assert dict(file.sizevars) == {"B": 4}
        assert file.metadata["mode"] == "fast"
        assert file.metadata["n"].tolist() == [1, 2]
        assert file["w"].tolist() == [2.0]
    assert main(["verify", "--deep", target]) == 0
    capsys.readouterr()
    assert main(["convert", source, target, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["changes"] == [{"kind": "renamed", "name": "a/w", "detail": "a.w"}]
    assert document["written"] == {"path": target, "nbytes": (tmp_path / "m.oinf").stat().st_size}


def test_the_exit_codes_of_the_command(tmp_path, capsys):
    (tmp_path / "m.safetensors").write_bytes(b"broken")
    target = str(tmp_path / "m.oinf")
    assert main(["convert", str(tmp_path / "m.safetensors"), target]) == 1
    assert main(["convert", str(tmp_path / "absent"), target]) == 1
    for wrong in (["--sizevar", "B"], ["--meta", "a=" + "[" * 3000], ["--meta", "a=" + "[" * 65 + "]" * 65]):
        with pytest.raises(SystemExit) as caught:
            main(["convert", "a", "b", *wrong])
        assert caught.value.code == 2
    assert "nested more than 64 deep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "name", "head"),
    [("h5py", "m.h5", b"\x89HDF\r\n\x1a\n"), ("gguf", "m.gguf", b"GGUF"), ("torch", "m.pt", b"PK\3\4")],
)
def test_an_absent_extra_is_named(package, name, head, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, package, None)
    (tmp_path / name).write_bytes(head)
    assert main(["convert", str(tmp_path / name), str(tmp_path / "m.oinf")]) == 3
    assert f'install "openinfer-oinf[{package}]"' in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_a_damaged_numpy_file_is_our_error_whatever_byte_is_hit(suffix: str, tmp_path) -> None:
    sound = io.BytesIO()
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(sound, values) if suffix == "npy" else np.savez_compressed(sound, w=values, v=values)
    rng = np.random.default_rng(5)
    for _ in range(400):
        data = bytearray(sound.getvalue())
        data[int(rng.integers(len(data)))] = int(rng.integers(256))
        (tmp_path / f"x.{suffix}").write_bytes(data)
        with suppress(OinfError):
            convert_to_oinf(tmp_path / f"x.{suffix}", tmp_path / "out.oinf", ConversionOptions())


def test_a_header_that_ends_inside_its_literal_is_our_error(convert) -> None:
    with pytest.raises(OinfError, match="not a sound"):
        convert(b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f4',\n", "x.npy")


def test_changes_are_reported_as_escapes():
    assert str(Change("copied", "a\nb", "tied to \x1b[2Jw")) == "copied a\\nb: tied to \\x1b[2Jw"
