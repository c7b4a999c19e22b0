"""Indexing a tensor: NumPy's results, and no more bytes read or checked than the index needs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openinfer_oinf import (
    OinfError,
    OinfWriter,
    TensorSpec,
    UninitializedError,
    dataclass_to_oinf,
    open_oinf,
    save_file,
)
from openinfer_oinf.source import DescriptorSource

KINDS = ["f32", "i16", "u8", "bool", "f64", "i4", "u2", "i1", "t2", "t1"]


def values_of(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind[0] == "f":
        return rng.normal(size=shape).astype(np.float32 if kind == "f32" else np.float64)
    low, high = {"bool": (0, 2), "t2": (-1, 2), "t1": (0, 2), "i4": (-8, 8), "i1": (-1, 1), "u2": (0, 4)}.get(
        kind, (0, 100)
    )
    drawn = rng.integers(low, high, shape)
    return drawn * 2 - 1 if kind == "t1" else drawn


@pytest.fixture
def reads(monkeypatch):
    """The byte ranges that are read of a file that is not mapped."""
    seen: list[tuple[int, int]] = []
    view = DescriptorSource.view

    def counted(self, offset: int, nbytes: int) -> memoryview:
        seen.append((offset, nbytes))
        return view(self, offset, nbytes)

    monkeypatch.setattr(DescriptorSource, "view", counted)
    return seen


@settings(max_examples=300, deadline=None)
@given(data=st.data(), kind=st.sampled_from(KINDS), mapped=st.booleans(), far=st.sampled_from([1, 4096]))
def test_indices_give_what_numpy_gives(data, kind, mapped, far, tmp_path_factory):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=7))
    key = data.draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
    values = values_of(kind, shape)
    path = tmp_path_factory.getbasetemp() / "slices.oinf"
    save_file({"t": TensorSpec(values, dtype=kind)}, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openinfer_oinf.tensor._FAR_APART", far)
        with open_oinf(path, mmap=mapped) as file:
            part = file.tensor("t")[key]
            expected = file["t"][key]
    np.testing.assert_array_equal(part, values[key])
    assert np.shape(part) == np.shape(values[key])
    assert np.asarray(part).dtype == np.asarray(expected).dtype
    assert not (isinstance(part, np.ndarray) and part.ndim and part.size and part.flags.writeable)


SHAPE = (1024, 8, 64)
CASES = {
    "a leading range": (np.s_[10:20], 10 * 512),
    "the last row": (np.s_[-1], 512),
    "rows far apart": (np.s_[::128], 8 * 512),
    "rows far apart, backwards": (np.s_[::-128], 8 * 512),
    "rows close together": (np.s_[0:10:2], 9 * 512),
    "a range of one row, then of the next axis": (np.s_[5:6, 0:3], 3 * 64),
    "one row of one row, then a range": (np.s_[5, 2, 10:20], 10),
    "one element": (np.s_[1023, 7, 63], 1),
    "after an ellipsis": (np.s_[7, ..., 3:4], 512 - 64 + 64),
    "nothing": (np.s_[5:5], 0),
    "nothing of the last axis": (np.s_[..., 5:5], 0),
}


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("kind", ["f32", "i16", "bool", "i4", "t2", "u1"])
def test_bytes_that_are_read(tmp_path, reads, kind, what):
    key, elements = CASES[what]
    values = values_of({"u1": "i1"}.get(kind, kind), SHAPE)
    values = -values if kind == "u1" else values
    path = tmp_path / "m.oinf"
    save_file({"t": TensorSpec(values, dtype=kind)}, path)
    with open_oinf(path, mmap=False) as file:
        tensor = file.tensor("t")
        bits = tensor.value_type.bits
        reads.clear()
        part = tensor[key]
        np.testing.assert_array_equal(part, values[key])
        read = sum(nbytes for _, nbytes in reads)
        if what.startswith("rows far apart"):
            # A row of fewer bits is read with its neighbours where a page holds them all.
            apart = 127 * 512 * bits // 8 >= 4096
            elements = elements if apart else (128 * 7 + 1) * 512
        assert read <= elements * bits / 8 + 1
        assert read >= elements * bits // 8
        assert all(tensor.offset <= offset <= tensor.offset + tensor.nbytes for offset, _ in reads)


def test_a_slice_of_a_mapped_tensor_is_a_view(tmp_path):
    save_file({"t": np.arange(24.0).reshape(4, 6)}, tmp_path / "m.oinf")
    with open_oinf(tmp_path / "m.oinf", mmap=True) as file:
        for key in (np.s_[1:3], np.s_[::2], np.s_[2, 1:3], np.s_[-1]):
            assert np.shares_memory(file.tensor("t")[key], file["t"])


@pytest.mark.parametrize(("tag", "good", "bad"), [(12, b"\1", b"\2"), (24, b"\x55", b"\x56")])
@pytest.mark.parametrize("mapped", [True, False])
def test_only_what_is_requested_is_checked(raw, tmp_path, tag, good, bad, mapped):
    per_byte = 1 if tag == 12 else 4
    data = good * 50 + bad + good * 49
    blob = raw.File(tensors=[raw.Tensor(b"x", tag, (100, per_byte), data)]).build()
    (tmp_path / "m.oinf").write_bytes(blob)
    with open_oinf(tmp_path / "m.oinf", mmap=mapped) as file:
        tensor = file.tensor("x")
        assert (tensor[0:50] == 1).all()
        assert (tensor[51:] == 1).all()
        for key in (np.s_[50], np.s_[49:52], np.s_[0:99]):
            with pytest.raises(OinfError, match="byte 50 of the payload") as caught:
                tensor[key]
            assert (caught.value.code, caught.value.entry) == ("E_VALUE", "x")


def test_bits_past_the_last_element_are_checked_with_it(raw):
    blob = raw.File(tensors=[raw.Tensor(b"x", 18, (3,), b"\x11\xf1")]).build()
    with open_oinf(blob) as file:
        assert file.tensor("x")[0:2].tolist() == [1, 1]
        with pytest.raises(OinfError, match="bits after the last"):
            file.tensor("x")[1:3]


@pytest.mark.parametrize("key", [4, -5, (0, 6), (..., 6), (0, 0, 0), (slice(None), -7)])
def test_indices_beyond_the_shape_are_index_errors(key):
    values = np.zeros((4, 6))
    with open_oinf(dataclass_to_oinf({"t": values})) as file, pytest.raises(IndexError):
        file.tensor("t")[key]


@pytest.mark.parametrize(
    "key", [np.array([2, 0]), [1, 3], (None, 1), np.array([True, False, True, False]), (1, [0, 2])]
)
def test_other_indices_read_the_whole_tensor(key):
    values = np.arange(24).reshape(4, 6)
    with open_oinf(dataclass_to_oinf({"t": values})) as file:
        np.testing.assert_array_equal(file.tensor("t")[key], values[key])


@pytest.mark.parametrize("shape", [(1 << 59, 0), (0, 1 << 59), (1, 0, 1 << 59)])
@pytest.mark.parametrize("key", [np.s_[0:1], np.s_[:], np.s_[...], np.s_[::-3], np.s_[-1:, 0:0]])
def test_nothing_of_huge_dimensions(raw, shape, key):
    blob = raw.File(tensors=[raw.Tensor(b"t", 11, shape, b"")]).build()
    with open_oinf(blob) as file:
        part = file.tensor("t")[key]
        assert part.size == 0
        assert part.shape == np.empty(shape, "f8")[key].shape


def test_scalars_and_declarations(raw):
    blob = raw.File(tensors=[raw.Tensor(b"d", 10, (4,), None), raw.Tensor(b"s", 10, (), bytes(4))]).build()
    with open_oinf(blob) as file:
        assert file.tensor("s")[()] == 0
        assert file.tensor("s")[...].shape == ()
        with pytest.raises(UninitializedError):
            file.tensor("d")[0:2]


def test_a_slice_of_a_tensor_larger_than_memory_stays_small(tmp_path):
    """A sparse file of 64 GiB: rows at both ends and a few between them are read as if there were no others."""
    path = tmp_path / "large.oinf"
    with OinfWriter(tmp_path / "head.oinf") as writer:
        writer.declare("t", "f32", (1 << 20, 1 << 14), data=False)
    head = bytearray((tmp_path / "head.oinf").read_bytes())
    size = len(head) + (1 << 36)
    head[61:69] = size.to_bytes(8, "little")
    row = 72 + 8
    head[row + 8 : row + 12] = (1).to_bytes(4, "little")
    head[row + 28 : row + 44] = (1 << 36).to_bytes(8, "little") + len(head).to_bytes(8, "little")
    with path.open("wb") as target:
        target.write(head)
        try:
            target.truncate(size)
        except OSError:
            pytest.skip("the file system has no sparse files of 64 GiB")
        target.seek(len(head) + 5 * 65536 + 8)
        target.write(np.float32(7).tobytes())
    with open_oinf(path, mmap=False) as file:
        tensor = file.tensor("t")
        assert tensor[5, 2] == 7
        assert tensor[5:6, 0:4].tolist() == [[0, 0, 7, 0]]
        assert tensor[5 :: 1 << 17, 2].tolist() == [7, 0, 0, 0, 0, 0, 0, 0]
        assert tensor[-1].shape == (1 << 14,)
