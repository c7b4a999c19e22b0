"""Streaming writes, what is refused, and what remains on disk after a failure."""

from __future__ import annotations

import errno
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    save_file,
    write_oinf,
)


@pytest.mark.rule("container.writing.1")
def test_payloads_in_any_order_give_the_same_file(tmp_path):
    arrays = {"b": np.arange(6, dtype="f4").reshape(2, 3), "a": np.arange(5, dtype="u1")}
    whole = dataclass_to_oinf(arrays)
    for order in (("a", "b"), ("b", "a")):
        target = tmp_path / "-".join(order)
        with OinfWriter(target) as writer:
            writer.declare("b", "f32", (2, 3))
            writer.declare("a", "u8", (5,))
            assert writer.plan().file_size == len(whole)
            for name in order:
                writer.write(name, arrays[name])
        assert target.read_bytes() == whole


@given(st.lists(st.integers(-8, 7), max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_blocks_may_be_split_anywhere(values, cuts):
    array = np.array(values, np.int8)
    edges = sorted({0, len(values), *(cut for cut in cuts if cut <= len(values))})
    target = io.BytesIO()
    with OinfWriter(target) as writer:
        writer.declare("n", "i4", (len(values),))
        writer.write("n", (array[start:end] for start, end in pairwise(edges)))
    assert target.getvalue() == dataclass_to_oinf({"n": TensorSpec(array, dtype="i4")})


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(12, dtype="f4").reshape(3, 4)),
        np.arange(24, dtype="f4").reshape(4, 6)[::2, ::-1],
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.broadcast_to(np.float32(3), (2, 2)),
        np.arange(6, dtype="f4").reshape(1, 6)[:, :0],
    ],
    ids=["fortran", "strided", "big-endian", "broadcast", "empty"],
)
def test_memory_order_and_byte_order_do_not_matter(array):
    plain = np.array(array.tolist(), "<f4").reshape(array.shape)
    assert dataclass_to_oinf({"a": array}) == dataclass_to_oinf({"a": plain})


@pytest.mark.parametrize("align", [8, 64, 4096])
def test_alignment_of_tensor_data(align):
    blob = dataclass_to_oinf({"m": "x", "a": np.ones(3, "u1"), "b": np.ones(3, "u1"), "e": np.ones(0)}, align=align)
    with open_oinf(blob) as file:
        assert [file.tensor(name).offset % align for name in ("a", "b")] == [0, 0]
        assert file["b"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("options", [{"version": 3}, {"version": 0}, {"align": 7}, {"align": 8192}])
def test_options_are_checked(options):
    with pytest.raises(OinfError):
        dataclass_to_oinf({}, **options)


def declare_twice(writer):
    writer.declare("w", "f32", (2,))
    writer.declare("w", "f32", (2,))


REFUSED = {
    "E_DUPLICATE": declare_twice,
    "E_CASE": lambda writer: (writer.sizevar("b", 1), writer.sizevar("B", 2)),
    "E_NAME": lambda writer: writer.sizevar("a b", 1),
    "E_VALUE": lambda writer: writer.sizevar("a", -1),
    "E_DTYPE": lambda writer: writer.declare("a", "str", ()),
    "E_DIM_OVERFLOW": lambda writer: writer.declare("a", "f32", (1 << 40, 1 << 40)),
    "E_NDIM": lambda writer: writer.declare("a", "f32", (1,) * 33),
}


@pytest.mark.parametrize("code", REFUSED)
def test_declarations_are_checked(code):
    writer = OinfWriter(io.BytesIO())
    with pytest.raises(OinfError) as caught:
        REFUSED[code](writer)
    assert caught.value.code == code
    assert caught.value.entry


@pytest.mark.parametrize("shape", [(2.7,), "34", 5, None, ("a",), (np.float32(2),)])
def test_shapes_are_whole_numbers(shape):
    for declare in (OinfWriter(io.BytesIO()).declare, lambda name, *rest: UninitializedTensor(*rest, name=name)):
        with pytest.raises(OinfError, match="E_SHAPE") as caught:
            declare("w", "f32", shape)
        assert repr(shape) in str(caught.value)


@pytest.mark.parametrize("value", [True, 1.5, "12", None, 1 << 64])
def test_size_variables_are_whole_numbers(value):
    with pytest.raises(OinfError):
        OinfWriter(io.BytesIO()).sizevar("B", value)


def test_case_collisions_can_be_allowed():
    with open_oinf(dataclass_to_oinf({"sizevars": {"b": 1, "B": 2}}, allow_case_collisions=True)) as file:
        assert dict(file.sizevars) == {"B": 2, "b": 1}


@pytest.mark.rule("container.writing.2")
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (np.zeros((2, 2), "f4"), "E_SHAPE"),
        (np.zeros(2, "f4"), "E_SHAPE"),
        (iter([np.zeros(2, "f4")]), "E_DATA_SIZE"),
        (iter([np.zeros(2, "f4"), np.zeros(2, "f4")]), "E_DATA_SIZE"),
        (iter([]), "E_DATA_SIZE"),
        (np.array(["a", "b", "c"]), "E_DTYPE"),
    ],
)
def test_values_have_to_fit_the_declaration(tmp_path, data, code):
    def write():
        with OinfWriter(tmp_path / "m") as writer:
            writer.declare("w", "f32", (3,))
            writer.write("w", data)

    with pytest.raises(OinfError) as caught:
        write()
    assert (caught.value.code, caught.value.entry) == (code, "w")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("u64", [1, 2**63]),
        ("u64", [[1], [2**64 - 1]]),
        ("u64", [np.int64(1), np.uint64(2**63 + 1)]),
        (None, (0, 2**63 + 1)),
        ("f64", [1, 2**63]),
        *((dtype, []) for dtype in ("i8", "u64", "bool", "t1", "i4", "f16", None)),
        ("i8", [[], []]),
    ],
)
def test_lists_hold_whole_numbers_of_64_bits_and_none_at_all(tmp_path, dtype, values):
    """NumPy makes floats of both, which lose digits and which integer types refuse."""
    shape = np.shape(values)
    write_oinf({"t": TensorSpec(values, dtype), "metadata": {"m": ScalarValue(values, dtype)}}, tmp_path / "m")
    with OinfWriter(tmp_path / "s.oinf") as writer:
        writer.declare("t", dtype or ("u64" if values else "f64"), shape)
        writer.write("t", iter([values]) if len(shape) == 1 else values)
    with open_oinf(tmp_path / "m") as file, open_oinf(tmp_path / "s.oinf") as streamed:
        assert (
            file["t"].tolist()
            == file.metadata["m"].tolist()
            == streamed["t"].tolist()
            == np.array(values, object).tolist()
        )


@pytest.mark.parametrize("values", [[2**64], [-1, 2**63], [10**10_000]])
def test_whole_numbers_beyond_64_bits_are_reported_as_such(values):
    with pytest.raises(OinfError, match=r"whole numbers from .* fit no type of 64 bits") as caught:
        write_oinf({"t": TensorSpec(values, "u64")}, io.BytesIO())
    assert caught.value.code == "E_VALUE"


def test_nothing_can_be_declared_after_the_first_payload(tmp_path):
    with OinfWriter(tmp_path / "m") as writer:
        writer.declare("w", "f32", ())
        writer.write("w", 1.0)
        with pytest.raises(OinfError) as caught:
            writer.declare("x", "f32", ())
    assert caught.value.code == "E_STATE"


@pytest.mark.parametrize(("stored", "code"), [(b"\1", "E_DATA_SIZE"), (b"\2\0", "E_VALUE"), (b"\1\0", None)])
def test_raw_bytes(tmp_path, stored, code):
    def write():
        with OinfWriter(tmp_path / "m") as writer:
            writer.declare("b", "bool", (2,))
            writer.write_raw("b", stored)

    if code is None:
        write()
        with open_oinf(tmp_path / "m") as file:
            assert file["b"].tolist() == [True, False]
    else:
        with pytest.raises(OinfError) as caught:
            write()
        assert caught.value.code == code


class TestReplacing:
    OLD = b"what was there before"

    @pytest.fixture
    def target(self, tmp_path):
        (tmp_path / "m.oinf").write_bytes(self.OLD)
        return tmp_path / "m.oinf"

    def untouched(self, target):
        return target.read_bytes() == self.OLD and list(target.parent.iterdir()) == [target]

    def test_a_complete_file_replaces_the_old_one(self, target):
        write_oinf({"a": np.ones(2)}, target)
        assert list(target.parent.iterdir()) == [target]
        with open_oinf(target) as file:
            assert file["a"].tolist() == [1, 1]

    def test_missing_values_leave_the_old_file(self, target):
        with pytest.raises(OinfError) as caught, OinfWriter(target) as writer:
            writer.declare("w", "f32", (3,))
        assert caught.value.code == "E_UNWRITTEN"
        assert self.untouched(target)

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_an_exception_leaves_the_old_file(self, target, error):
        def write():
            with OinfWriter(target) as writer:
                writer.declare("w", "f32", (3,))
                writer.write("w", np.ones(3, "f4"))
                raise error

        with pytest.raises(error):
            write()
        assert self.untouched(target)

    @pytest.mark.parametrize("full_at", range(5))
    def test_a_full_disk_leaves_the_old_file(self, target, monkeypatch, full_at):
        from openinfer_oinf import writer

        original = writer._write_at
        calls = iter(range(100))

        def write_until_full(file, offset, data):
            if next(calls) == full_at:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(file, offset, data)

        monkeypatch.setattr(writer, "_write_at", write_until_full)
        with pytest.raises(OSError, match="No space"):
            write_oinf({"m": "x", "a": np.ones(2), "b": np.ones(2), "c": np.ones(2)}, target)
        assert self.untouched(target)

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_failure_at_the_end_leaves_the_old_file(self, target, monkeypatch, step):
        def fail(*_):
            raise OSError(errno.EIO, "input/output error")

        monkeypatch.setattr({"fsync": "os.fsync", "replace": "pathlib.Path.replace"}[step], fail)
        with pytest.raises(OSError, match="input/output"):
            write_oinf({"a": np.ones(2)}, target)
        monkeypatch.undo()
        assert self.untouched(target)

    def test_the_old_file_stays_readable_while_mapped(self, target):
        write_oinf({"a": np.arange(4.0)}, target)
        with open_oinf(target, mmap=True) as file:
            view = file["a"]
            write_oinf({"a": np.zeros(4)}, target)
            assert view.tolist() == [0, 1, 2, 3]

    def test_links_and_permissions_are_kept(self, target):
        target.chmod(0o640)
        link = target.with_name("link")
        link.symlink_to(target)
        write_oinf({}, link)
        assert link.is_symlink()
        assert target.stat().st_mode & 0o777 == 0o640

    def test_impossible_places_are_named(self, tmp_path):
        with pytest.raises(IsADirectoryError):
            write_oinf({}, tmp_path)
        with pytest.raises(FileNotFoundError, match="absent"):
            write_oinf({}, tmp_path / "absent" / "m.oinf")


INT8 = np.arange(6, dtype="i1").reshape(2, 3)
PER_TENSOR = QuantParams("symmetric", QuantScale.per_tensor(0.5))
PER_CHANNEL = QuantParams("asymmetric", QuantScale.per_channel(1, [1, 2, 3]), QuantZeroPoint.per_channel(1, [0, 1, 2]))


@pytest.mark.rule("container.values.5")
@pytest.mark.parametrize("pattern", [(a, b, c) for a in (0, 1, 2) for b in (0, 1, 2) for c in (0, 1, 2)])
def test_quantised_tensors_in_every_combination(pattern):
    quants = (None, PER_TENSOR, PER_CHANNEL)
    specs = {f"t{at}": TensorSpec(INT8 + at, quant=quants[each]) for at, each in enumerate(pattern)}
    with open_oinf(dataclass_to_oinf(specs), verify="eager") as file:
        for at, each in enumerate(pattern):
            assert file[f"t{at}"].tolist() == (INT8 + at).tolist()
            assert file.tensor(f"t{at}").quant == quants[each]


@pytest.mark.parametrize(
    ("array", "quant", "code"),
    [
        (INT8.astype("f4"), PER_TENSOR, "E_QUANT"),
        (INT8 > 0, PER_TENSOR, "E_QUANT"),
        (INT8, QuantParams("symmetric", QuantScale.per_channel(1, [1, 2])), "E_QUANT"),
        (INT8, QuantParams("symmetric", QuantScale.per_channel(2, [1, 2])), "E_QUANT"),
        (INT8, QuantParams("symmetric", QuantScale.per_tensor(float("nan"))), "E_QUANT_VALUE"),
        (INT8, QuantParams("symmetric", QuantScale.per_tensor(1e300)), "E_QUANT_VALUE"),
        (INT8, QuantParams("symmetric", QuantScale.per_tensor(0)), "E_QUANT_VALUE"),
        (INT8, QuantParams("asymmetric", QuantScale.per_tensor(1), QuantZeroPoint.per_tensor(128)), "E_QUANT_VALUE"),
    ],
)
def test_quantisation_that_is_refused(array, quant, code):
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"w": TensorSpec(array, quant=quant)})
    assert (caught.value.code, caught.value.entry) == (code, "w")


def test_contradicting_quantisation_cannot_be_made():
    with pytest.raises(OinfError, match="symmetric"):
        QuantParams("symmetric", QuantScale.per_tensor(1), QuantZeroPoint.per_tensor(0))
    with pytest.raises(OinfError, match="axis"):
        QuantParams("asymmetric", QuantScale.per_channel(0, [1]), QuantZeroPoint.per_tensor(0))
    with pytest.raises(OinfError, match="scheme"):
        QuantParams("odd", QuantScale.per_tensor(1))
    with pytest.raises(OinfError, match="whole"):
        QuantZeroPoint.per_tensor(0.5)
    with pytest.raises(OinfError, match="whole"):
        QuantZeroPoint.per_tensor(float("nan"))
    with pytest.raises(OinfError, match="32 bits"):
        QuantZeroPoint.per_channel(0, [1 << 31])
    with pytest.raises(OinfError, match="one dimension"):
        QuantScale.per_channel(0, np.ones((2, 2)))
    assert QuantScale.per_tensor(np.array(0.5)) == QuantScale.per_tensor(0.5)


def test_version_1_has_no_room_for_quantisation():
    with pytest.raises(OinfError) as caught:
        dataclass_to_oinf({"w": TensorSpec(INT8, quant=PER_TENSOR)}, version=1)
    assert (caught.value.code, caught.value.entry) == ("E_QUANT", "w")


def test_negative_scales_can_be_allowed():
    spec = TensorSpec(INT8, quant=QuantParams("symmetric", QuantScale.per_tensor(-1)))
    with open_oinf(dataclass_to_oinf({"w": spec}, allow_any_scale=True)) as file:
        assert file.tensor("w").dequantize().tolist() == (-INT8.astype("f4")).tolist()


def test_save_file_takes_arrays_by_name(tmp_path):
    save_file({"W.0": np.ones(2)}, tmp_path / "m", sizevars={"B": 2}, metadata={"mode": "fast"})
    with open_oinf(tmp_path / "m") as file:
        assert (list(file), dict(file.sizevars), dict(file.metadata)) == (["W.0"], {"B": 2}, {"mode": "fast"})


def test_a_shorter_file_leaves_nothing_of_a_longer_one():
    target = io.BytesIO()
    write_oinf({"a": np.ones(100)}, target)
    write_oinf({"b": 1}, target)
    assert target.getvalue() == dataclass_to_oinf({"b": 1})


@pytest.mark.parametrize(
    ("value", "warned"), [([1], True), (np.arange(8, dtype="i1"), False), (Bitset([1] * 9), True), (Bitset([1]), False)]
)
def test_metadata_that_the_reference_cannot_load_is_warned_of(value, warned):
    writer = OinfWriter(io.BytesIO())
    writer.metadata("m", value)
    assert [finding.code for finding in writer.warnings] == (["W_LOADER"] if warned else [])
