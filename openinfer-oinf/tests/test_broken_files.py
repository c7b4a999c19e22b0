"""Each condition of the format description's table of verdicts, as a file that is wrong in that one way."""

from __future__ import annotations

import re
import struct

import pytest

from openinfer_oinf import Limits, OinfError, open_oinf, verify_oinf

F32, I8, I1, BOOL, T2, I4, STR, BITSET, NDARRAY = 10, 1, 20, 12, 24, 18, 14, 13, 15
ONE = struct.pack("<f", 1.0)


def codes_of(blob: bytes, **options) -> set[str]:
    with pytest.raises(OinfError) as caught, open_oinf(blob, verify="eager", **options):
        pass
    return {finding.code for finding in caught.value.findings}


def file_with(raw, **changes):
    tensor = raw.Tensor(b"w", F32, (1,), ONE)
    for name, value in changes.pop("tensor", {}).items():
        setattr(tensor, name, value)
    fields = {"sizevars": [(b"B", 4)], "metadata": [raw.Metadata(b"mode", STR, raw.string(b"fast"))]} | changes
    return raw.File(**({"tensors": [tensor]} | fields))


def test_the_unbroken_file_is_valid(raw):
    with open_oinf(file_with(raw).build(), verify="eager") as file:
        assert file.warnings == ()


@pytest.mark.rule("container.layout.2", "container.reading.1", "runtime.models.1")
@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"magic": b"OINX\0"}, "E_MAGIC"),
        ({"version": 0}, "E_VERSION"),
        ({"version": 3}, "E_VERSION"),
        ({"flags": 1}, "E_HEADER_FLAGS"),
        ({"reserved": 1}, "E_RESERVED"),
        ({"offset_sizevars": 64}, "E_SECTION_ORDER"),
        ({"offset_metadata": 73}, "E_ALIGN"),
        ({"offset_metadata": 80}, "E_COUNT"),
        ({"offset_tensors": 80}, "E_SECTION_ORDER"),
        ({"offset_data": 1 << 40}, "E_SECTION_ORDER"),
        ({"n_sizevars": 0xFFFFFFFF}, "E_COUNT"),
        ({"n_metadata": 0xFFFFFFFF}, "E_COUNT"),
        ({"n_tensors": 0xFFFFFFFF}, "E_COUNT"),
        ({"n_sizevars": 0}, "E_SECTION_GAP"),
        ({"file_size": 72}, "E_FILE_SIZE"),
    ],
)
def test_header(raw, header, code):
    assert code in codes_of(file_with(raw, header=header).build())


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (b"// Reads digits\nblock entry { }\n", "this is text, not an .oinf container"),
        (b"T := 4\n", "the text form that came before the binary format"),
        (b"PK\x03\x04", "not an .oinf container: it begins with other bytes (found b'PK"),
    ],
)
def test_a_file_of_another_kind_is_named(blob, said):
    with pytest.raises(OinfError, match=re.escape(said)):
        open_oinf(blob)


def test_table_longer_than_its_section(raw):
    file = raw.File(sizevars=[(b"long.name", 1), (b"b", 2)], header={"offset_metadata": 72 + 32})
    assert "E_TABLE_OVERRUN" in codes_of(file.build())


@pytest.mark.rule("container.layout.3")
def test_header_padding(raw):
    assert codes_of(file_with(raw, padding=b"\0\1\0").build()) == {"E_PADDING"}


@pytest.mark.parametrize("size", [0, 1, 5, 9, 69, 71])
def test_fewer_bytes_than_a_header(raw, size):
    assert codes_of(file_with(raw).build()[:size]) == {"E_TRUNCATED"}


def test_appended_bytes(raw):
    assert codes_of(file_with(raw).build() + bytes(8)) == {"E_FILE_SIZE"}


def test_file_size_that_is_not_a_multiple_of_eight(raw):
    blob = file_with(raw).build()
    blob = blob[:61] + struct.pack("<Q", len(blob) + 1) + blob[69:] + b"\0"
    assert "E_ALIGN" in codes_of(blob)


def test_a_text_file_of_the_older_form_is_named():
    with pytest.raises(OinfError, match="text form"):
        open_oinf(b"B := 1024\nD := 128\n" + b" " * 100)


@pytest.mark.rule("container.reading.1")
def test_all_findings_of_a_stage_are_collected(raw):
    blob = file_with(raw, sizevars=[(b"B C", 1)], tensor={"tag": 99, "flags": 9}).build()
    assert {"E_NAME", "E_DTYPE", "E_TENSOR_FLAGS"} <= codes_of(blob)


@pytest.mark.rule("container.layout.5")
@pytest.mark.parametrize("name", [b"", b"a b", b"a\n", b"a/b", b"\xc3\xa9", b"a\0"])
@pytest.mark.parametrize("table", ["sizevars", "metadata", "tensors"])
def test_names_outside_the_alphabet(raw, name, table):
    entries = {
        "sizevars": [(name, 1)],
        "metadata": [raw.Metadata(name, 5, b"\1")],
        "tensors": [raw.Tensor(name, F32, (1,), ONE)],
    }
    with pytest.raises(OinfError) as caught:
        open_oinf(raw.File(**{table: entries[table]}).build())
    assert (caught.value.code, caught.value.table) == ("E_NAME", table)


def test_string_length_past_the_table(raw):
    blob = bytearray(file_with(raw).build())
    blob[72:76] = struct.pack("<I", 0xFFFFFFF0)
    assert "E_STRING" in codes_of(bytes(blob))


def test_string_padding(raw):
    blob = bytearray(file_with(raw).build())
    blob[79] = 1
    assert codes_of(bytes(blob)) == {"E_PADDING"}


@pytest.mark.rule("container.layout.3")
def test_table_padding(raw):
    file = raw.File(tensors=[raw.Tensor(b"w", F32, (1,), ONE)])
    blob = bytearray(file.build())
    offset_data = struct.unpack_from("<Q", blob, 53)[0]
    blob[offset_data - 1] = 1
    assert codes_of(bytes(blob)) == {"E_PADDING"}


def test_long_names_meet_the_limit(raw):
    blob = raw.File(sizevars=[(b"n" * 1025, 1)]).build()
    assert codes_of(blob) == {"E_LIMIT"}
    with open_oinf(blob, limits=Limits(name_bytes=2000)) as file:
        assert len(next(iter(file.sizevars))) == 1025


@pytest.mark.rule("container.layout.5", "runtime.models.1")
@pytest.mark.parametrize("table", ["sizevars", "metadata", "tensors"])
def test_duplicate_names(raw, table):
    entries = {
        "sizevars": [(b"n", 1), (b"n", 2)],
        "metadata": [raw.Metadata(b"n", 5, b"\1"), raw.Metadata(b"n", 5, b"\1")],
        "tensors": [raw.Tensor(b"n", F32, (1,), ONE), raw.Tensor(b"n", F32, (1,), ONE)],
    }
    assert codes_of(raw.File(**{table: entries[table]}).build()) == {"E_DUPLICATE"}


def test_odd_names_are_warnings(raw):
    blob = raw.File(sizevars=[(b"b", 1), (b"B", 1)], tensors=[raw.Tensor(b"b", F32, (1,), ONE)]).build()
    with open_oinf(blob) as file:
        assert {finding.code for finding in file.warnings} == {"W_CASE", "W_ORDER", "W_SHARED_NAME"}


@pytest.mark.parametrize("table", ["sizevars", "metadata", "tensors"])
@pytest.mark.parametrize(
    ("names", "code", "culprit", "other"),
    [((b"a", b"z", b"c", b"b"), "W_ORDER", b"c", "z"), ((b"A", b"b", b"c", b"a"), "W_CASE", b"a", "A")],
)
def test_warnings_about_names_say_which_and_where(raw, table, names, code, culprit, other):
    made = {
        "sizevars": [(name, 1) for name in names],
        "metadata": [raw.Metadata(name, 12, b"\1") for name in names],
        "tensors": [raw.Tensor(name, F32, (1,), ONE) for name in names],
    }
    blob = raw.File(**{table: made[table]}).build()
    with open_oinf(blob) as file:
        (finding,) = [each for each in file.warnings if each.code == code]
    assert (finding.table, finding.entry) == (table, culprit.decode())
    assert repr(other) in finding.message
    assert blob[finding.offset :].startswith(raw.string(culprit)[:5])


def test_the_finding_about_a_shared_name_says_which_and_where(raw):
    blob = raw.File(sizevars=[(b"b", 1)], tensors=[raw.Tensor(b"a", F32, (1,), ONE), raw.Tensor(b"b", F32, (1,), ONE)])
    data = blob.build()
    with open_oinf(data) as file:
        (finding,) = file.warnings
    assert (finding.code, finding.table, finding.entry) == ("W_SHARED_NAME", "tensors", "b")
    assert data[finding.offset :].startswith(raw.string(b"b")[:5])
    assert finding.offset > 88


@pytest.mark.parametrize(("row", "nth"), [(0, 1), (1, 2), (2, 3)])
def test_what_cannot_be_read_is_reported_by_its_number(raw, row, nth):
    blob = bytearray(raw.File(sizevars=[(b"a", 1), (b"b", 2), (b"c", 3)]).build())
    blob[72 + 16 * row : 76 + 16 * row] = struct.pack("<I", 0xFFFFFFF0)
    with pytest.raises(OinfError) as caught:
        open_oinf(bytes(blob))
    assert (caught.value.code, caught.value.offset) == ("E_STRING", 72 + 16 * row)
    assert f"entry {nth} of 3: a name of" in str(caught.value)


def test_a_row_that_passes_the_end_of_its_table_is_reported_by_its_number(raw):
    tensors = [raw.Tensor(b"a", F32, (1,), ONE), raw.Tensor(b"b", F32, (1,), ONE, ndim=60)]
    with pytest.raises(OinfError, match="entry 2 of 2: the table ends inside an entry") as caught:
        open_oinf(raw.File(tensors=tensors).build())
    assert (caught.value.code, caught.value.entry) == ("E_TABLE_OVERRUN", "b")


@pytest.mark.rule("runtime.models.1")
@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"tag": 0}, "E_META_TYPE"),
        ({"tag": 26}, "E_META_TYPE"),
        ({"flags": 1}, "E_META_FLAGS"),
        ({"offset": 1 << 62}, "E_BOUNDS"),
        ({"offset": 0}, "E_BOUNDS"),
        ({"offset": 0xFFFFFFFFFFFFFFF8, "nbytes": 16}, "E_BOUNDS"),
        ({"nbytes": 0}, "E_META_SIZE"),
        ({"nbytes": 2}, "E_META_SIZE"),
        ({"tag": 3}, "E_META_SIZE"),
        ({"tag": STR}, "E_META_SIZE"),
        ({"tag": BITSET}, "E_META_SIZE"),
        ({"tag": NDARRAY}, "E_META_SIZE"),
        ({"tag": BOOL, "data": b"\2"}, "E_VALUE"),
        ({"tag": I4, "data": b"\x10"}, "E_VALUE"),
        ({"tag": T2, "data": b"\2"}, "E_VALUE"),
        ({"tag": STR, "data": struct.pack("<II", 0, 0)}, "E_VALUE"),
        ({"tag": STR, "data": struct.pack("<I4s", 2, b"a b\0")}, "E_PADDING"),
        ({"tag": STR, "data": struct.pack("<I4s", 3, b"a b\0")}, "E_VALUE"),
        ({"tag": STR, "data": struct.pack("<I4s", 0xFFFFFFFF, b"abc\0")}, "E_META_SIZE"),
        ({"tag": BITSET, "data": struct.pack("<II", 3, 1) + b"\x0f" + bytes(7)}, "E_VALUE"),
        ({"tag": BITSET, "data": struct.pack("<II", 3, 1) + b"\7" + bytes(6) + b"\1"}, "E_PADDING"),
        ({"tag": BITSET, "data": struct.pack("<II", 9, 1) + bytes(8)}, "E_META_SIZE"),
        ({"tag": NDARRAY, "data": struct.pack("<II", STR, 0) + bytes(8)}, "E_META_TYPE"),
        ({"tag": NDARRAY, "data": struct.pack("<II", BITSET, 0) + bytes(8)}, "E_META_TYPE"),
        ({"tag": NDARRAY, "data": struct.pack("<II", NDARRAY, 0) + bytes(8)}, "E_META_TYPE"),
        ({"tag": NDARRAY, "data": struct.pack("<II", I8, 0xFFFFFFFF) + bytes(8)}, "E_NDIM"),
        ({"tag": NDARRAY, "data": struct.pack("<II", I8, 9) + bytes(8)}, "E_META_SIZE"),
        ({"tag": NDARRAY, "data": struct.pack("<IIQQ", I8, 2, 1 << 33, 1 << 33)}, "E_DIM_OVERFLOW"),
        ({"tag": NDARRAY, "data": struct.pack("<IIQQ", I1, 2, 0, 1 << 63)}, "E_DIM_OVERFLOW"),
        ({"tag": NDARRAY, "data": struct.pack("<IIQ", I8, 1, 9) + bytes(8)}, "E_META_SIZE"),
        ({"tag": NDARRAY, "data": struct.pack("<IIQ", BOOL, 1, 2) + b"\1\2" + bytes(6)}, "E_VALUE"),
        ({"tag": NDARRAY, "data": struct.pack("<IIQ", I8, 1, 2) + b"\1\2\3" + bytes(5)}, "E_PADDING"),
    ],
)
def test_metadata(raw, entry, code):
    fields = {"key": b"m", "tag": 5, "data": b"\1"} | entry
    file = raw.File(metadata=[raw.Metadata(**fields)])
    with pytest.raises(OinfError) as caught:
        open_oinf(file.build(), verify="eager")
    assert code in {finding.code for finding in caught.value.findings}
    assert caught.value.entry == "m"


def test_unaligned_metadata(raw):
    file = raw.File(metadata=[raw.Metadata(b"m", 5, b"\0\1")])
    file.metadata[0].offset = len(raw.File(metadata=[raw.Metadata(b"m", 5, b"")]).build()) + 1
    file.metadata[0].nbytes = 1
    file.after_data = bytes(8)
    assert "E_ALIGN" in codes_of(file.build())


@pytest.mark.rule("runtime.models.1", "runtime.models.8")
@pytest.mark.parametrize(
    ("tensor", "code"),
    [
        ({"tag": 0}, "E_DTYPE"),
        ({"tag": STR}, "E_DTYPE"),
        ({"tag": NDARRAY}, "E_DTYPE"),
        ({"tag": 26}, "E_DTYPE"),
        ({"ndim": 1 << 24}, "E_NDIM"),
        ({"ndim": 0xFFFFFFFF}, "E_NDIM"),
        ({"ndim": 65}, "E_NDIM"),
        ({"ndim": 60}, "E_TABLE_OVERRUN"),
        ({"dims": (1 << 33, 1 << 33)}, "E_DIM_OVERFLOW"),
        ({"dims": (1 << 33, 1 << 33, 0)}, "E_DIM_OVERFLOW"),
        ({"dims": (1 << 62,)}, "E_DIM_OVERFLOW"),
        ({"dims": (1 << 62,), "data": None}, "E_DIM_OVERFLOW"),
        ({"flags": 5}, "E_TENSOR_FLAGS"),
        ({"flags": 0}, "E_NODATA"),
        ({"offset": 12}, "E_ALIGN"),
        ({"offset": 0}, "E_BOUNDS"),
        ({"offset": 1 << 40}, "E_BOUNDS"),
        ({"offset": 0xFFFFFFFFFFFFFFF8}, "E_BOUNDS"),
        ({"nbytes": 3}, "E_DATA_SIZE"),
        ({"nbytes": 0}, "E_DATA_SIZE"),
        ({"dims": (2,)}, "E_DATA_SIZE"),
        ({"quant_nbytes": 8}, "E_NOQUANT"),
        ({"quant_offset": 8}, "E_NOQUANT"),
        ({"flags": 3, "quant_nbytes": 56, "quant_offset": 1 << 40}, "E_BOUNDS"),
        ({"tag": BOOL, "data": b"\2"}, "E_VALUE"),
        ({"tag": I4, "dims": (3,), "data": b"\0\x10"}, "E_VALUE"),
        ({"tag": T2, "dims": (4,), "data": b"\x80"}, "E_VALUE"),
    ],
)
def test_tensors(raw, tensor, code):
    with pytest.raises(OinfError) as caught:
        open_oinf(file_with(raw, tensor=tensor).build(), verify="eager")
    assert code in {finding.code for finding in caught.value.findings}
    assert (caught.value.table, caught.value.entry) == ("tensors", "w")


def test_empty_tensors_too_wide_for_real_values(raw):
    blob = file_with(raw, tensor={"tag": 25, "dims": (0, 1 << 62), "data": b""}).build()
    with open_oinf(blob) as file:
        assert file["w"].shape == (0, 1 << 62)
        with pytest.raises(OinfError, match="E_DIM_OVERFLOW"):
            file.tensor("w").dequantize()


@pytest.mark.rule("container.layout.9")
def test_version_1_knows_one_flag(raw):
    assert "E_TENSOR_FLAGS" in codes_of(file_with(raw, version=1, tensor={"flags": 3}).build())


@pytest.mark.parametrize("version", [1, 2])
def test_a_body_under_the_label_of_the_other_version(raw, version):
    blob = bytearray(file_with(raw, version=version).build())
    blob[5] = 3 - version
    with pytest.raises(OinfError):
        open_oinf(bytes(blob))


QUANT_TENSOR = {"tag": I8, "dims": (2, 3), "data": bytes(6)}


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": 0},
        {"scheme": 3},
        {"scale_mode": 0},
        {"scale_mode": 3},
        {"zp_mode": 3},
        {"zp_mode": 2},
        {"scheme": 1},
        {"reserved": 1},
        {"scale_axis": 1},
        {"zp_axis": 1},
        {"zp_mode": 0, "zeros": (), "zp_axis": 1},
        {"scale_count": 2},
        {"zp_count": 0},
        {"scales": (0.5, 0.5)},
        {"zp_mode": 0},
        {"scale_mode": 2, "scales": (1, 1, 1), "scale_axis": 1},
        {"scale_mode": 2, "zp_mode": 2, "scales": (1, 1), "zeros": (0, 0), "zp_axis": 1},
        {"scale_mode": 2, "zp_mode": 0, "scales": (1, 1), "zeros": (), "scale_axis": 2},
        {"scale_mode": 2, "zp_mode": 0, "scales": (1, 1, 1), "zeros": (), "scale_axis": 0},
        {"scale_mode": 2, "zp_mode": 0, "scales": (1,), "zeros": (), "scale_count": 1 << 61},
    ],
)
def test_quant_payloads(raw, changes):
    blob = file_with(raw, tensor=QUANT_TENSOR | {"quant": raw.quant(**changes)}).build()
    assert codes_of(blob) == {"E_QUANT"}


@pytest.mark.parametrize("shape", [(), (1,), (0,)])
def test_quant_payloads_of_small_tensors_are_checked_too(raw, shape):
    data = bytes(1 if 0 not in shape else 0)
    tensor = {"tag": I8, "dims": shape, "data": data, "quant": raw.quant(scheme=9)}
    assert codes_of(file_with(raw, tensor=tensor).build()) == {"E_QUANT"}


def test_quant_padding(raw):
    payload = raw.quant(zp_mode=0, zeros=())[:-1] + b"\1"
    assert codes_of(file_with(raw, tensor=QUANT_TENSOR | {"quant": payload}).build()) == {"E_PADDING"}


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf")])
def test_scales_that_are_not_finite(raw, scale):
    blob = file_with(raw, tensor=QUANT_TENSOR | {"quant": raw.quant(scales=(scale,))}).build()
    assert codes_of(blob) == {"E_QUANT_VALUE"}
    with open_oinf(blob) as file, pytest.raises(OinfError, match="E_QUANT_VALUE"):
        _ = file.tensor("w").quant


@pytest.mark.parametrize(
    ("tensor", "quant", "code"),
    [
        (QUANT_TENSOR, {"scales": (0.0,)}, "W_QUANT_VALUE"),
        (QUANT_TENSOR, {"scales": (-1.0,)}, "W_QUANT_VALUE"),
        (QUANT_TENSOR, {"zeros": (128,)}, "W_QUANT_VALUE"),
        ({}, {}, "W_QUANT_DTYPE"),
    ],
)
def test_odd_quantisation_is_a_warning(raw, tensor, quant, code):
    blob = file_with(raw, tensor=tensor | {"quant": raw.quant(**quant)}).build()
    report = verify_oinf(blob, file=False)
    assert [finding.code for finding in report.warnings] == [code]


@pytest.mark.rule("runtime.models.7")
def test_bitset_tensors_read_as_bytes(raw):
    blob = file_with(raw, tensor={"tag": BITSET, "dims": (2,), "data": b"\xff\1"}).build()
    with open_oinf(blob) as file:
        assert file["w"].tolist() == [255, 1]
        assert [finding.code for finding in file.warnings] == ["W_BITSET"]


@pytest.mark.rule("container.layout.8")
def test_overlapping_payloads(raw):
    file = file_with(raw)
    file.tensors.append(raw.Tensor(b"x", F32, (1,), ONE))
    whole = file.build()
    file.tensors[1].data = None
    file.tensors[1].flags, file.tensors[1].nbytes = 1, 4
    file.tensors[1].offset = len(whole) - 16
    assert codes_of(file.build()) == {"E_OVERLAP"}


@pytest.mark.parametrize(
    ("gap", "is_hole"),
    [(bytes(8), False), (bytes(4088), False), (bytes(4096), True), (b"\1" + bytes(7), True), (bytes(7) + b"\1", True)],
)
def test_bytes_before_the_first_payload(raw, gap, is_hole):
    blob = raw.File(tensors=[raw.Tensor(b"w", F32, (1,), ONE)], before_data=gap).build()
    if is_hole:
        assert codes_of(blob) == {"E_HOLE"}
    else:
        with open_oinf(blob) as file:
            assert file["w"].tolist() == [1.0]


@pytest.mark.parametrize("rest", [bytes(8), b"hidden.." * 4])
def test_bytes_after_the_last_payload(raw, rest):
    assert codes_of(file_with(raw, after_data=rest).build()) == {"E_HOLE"}


@pytest.mark.rule("container.layout.3")
def test_payload_padding(raw):
    blob = file_with(raw).build()[:-1] + b"\1"
    assert codes_of(blob) == {"E_PADDING"}


@pytest.mark.rule("container.reading.2")
@pytest.mark.parametrize(("gap", "code"), [(bytes(7) + b"\1", "E_HOLE"), (b"", "E_PADDING")])
def test_bytes_between_tensors_are_checked_on_first_use(raw, gap, code):
    file = file_with(raw, tensor={"data": ONE})
    file.tensors.append(raw.Tensor(b"x", F32, (1,), ONE))
    whole = bytearray(file.build())
    if gap:
        file.tensors[0].data = ONE + bytes(4) + gap
        file.tensors[0].nbytes = 4
        whole = bytearray(file.build())
    else:
        whole[-9] = 1
    assert codes_of(bytes(whole)) == {code}
    with open_oinf(bytes(whole)) as opened:
        assert opened["x"].tolist() == [1.0]
        with pytest.raises(OinfError, match=code):
            _ = opened["w"]
    with pytest.raises(OinfError, match=code):
        verify_oinf(bytes(whole), file=False)


@pytest.mark.rule("container.reading.5")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"header": {"flags": 1}}, "W_HEADER_FLAGS"),
        ({"header": {"reserved": 1}}, "W_RESERVED"),
        ({"padding": b"\0\0\1"}, "W_PADDING"),
        ({"after_data": bytes(64)}, "W_HOLE"),
        ({"tensor": {"tag": BOOL, "data": b"\2"}}, "W_VALUE"),
    ],
)
def test_compat_turns_harmless_errors_into_warnings(raw, changes, code):
    with open_oinf(file_with(raw, **changes).build(), check="compat", verify="eager") as file:
        assert [finding.code for finding in file.warnings] == [code]


def test_compat_reads_odd_bools_as_true(raw):
    blob = file_with(raw, tensor={"tag": BOOL, "dims": (3,), "data": b"\0\1\2"}).build()
    with open_oinf(blob, check="compat") as file:
        assert file["w"].tolist() == [False, True, True]


@pytest.mark.rule("container.reading.5")
@pytest.mark.parametrize("tensor", [{"ndim": 1 << 24}, {"offset": 1 << 40}, {"nbytes": 8}, {"tag": 0}])
def test_compat_keeps_every_rule_of_memory_safety(raw, tensor):
    assert codes_of(file_with(raw, tensor=tensor).build(), check="compat")


def test_the_error_says_where(raw):
    with pytest.raises(OinfError) as caught:
        open_oinf(file_with(raw, tensor={"tag": 99}).build())
    error = caught.value
    # header, sizevar (16), metadata (8 + 24), then the name of the tensor (8)
    assert (error.code, error.table, error.entry, error.offset) == ("E_DTYPE", "tensors", "w", 72 + 16 + 32 + 8)
    assert "entry 'w'" in str(error)
    assert "byte 128" in str(error)


def test_findings_are_bounded(raw):
    blob = raw.File(tensors=[raw.Tensor(b"w", 99, (), b"") for _ in range(3000)]).build()
    with pytest.raises(OinfError) as caught:
        open_oinf(blob)
    assert len(caught.value.findings) == Limits().findings


def test_warnings_are_bounded(raw):
    names = [f"n{each}".encode() for each in range(2000)]
    file = raw.File(sizevars=[(name, 1) for name in names], tensors=[raw.Tensor(name, F32, (), ONE) for name in names])
    with open_oinf(file.build()) as opened:
        assert len(opened.warnings) == Limits().findings + 1
        assert opened.warnings[-1].code == "W_MORE"
