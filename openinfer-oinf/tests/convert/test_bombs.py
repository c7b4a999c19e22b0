"""Sources that stand for far more than they hold: no memory and no disk goes to what they only claim."""

from __future__ import annotations

import io
import json
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest

from openinfer_oinf import ConversionOptions, OinfError, ReadOptions, convert_to_oinf, open_oinf
from openinfer_oinf.cli import main
from openinfer_oinf.convert.picklework import Keys, Work, check_pickle
from openinfer_oinf.convert.readers import torch_file
from openinfer_oinf.convert.torchcheck import check_torch
from openinfer_oinf.jsonfile import json_object

# Converts a file in a process of its own, and prints the error and by how many bytes its memory grew at most.
MEASURE = """
import resource, sys
from openinfer_oinf import ConversionOptions, OinfError, convert_to_oinf
from openinfer_oinf.convert.conversion import reader_of_file
reader_of_file(__import__("pathlib").Path(sys.argv[1]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    convert_to_oinf(sys.argv[1], sys.argv[1] + ".oinf")
    print("converted")
except OinfError as error:
    print(error.code, error.entry)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def measured(path) -> tuple[str, int]:
    """What became of a conversion, and by how many bytes the process grew."""
    done = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    reported, grown = done.stdout.splitlines()
    return reported, int(grown)


def refused(path, **read) -> OinfError:
    with pytest.raises(OinfError) as caught:
        convert_to_oinf(path, path.with_name("out.oinf"), ConversionOptions(read=ReadOptions(**read)))
    assert caught.value.code == "E_SOURCE"
    assert not path.with_name("out.oinf").exists()
    return caught.value


class TestNumpy:
    def test_packed_fortran_order_is_unpacked_only_when_the_source_is_large_enough(self, tmp_path):
        path = tmp_path / "m.npz"
        np.savez_compressed(path, w=np.zeros((1 << 14, 1 << 13), np.int8, order="F"))
        assert path.stat().st_size < 1 << 20
        reported, grown = measured(path)
        assert reported == "E_SOURCE w"
        assert grown < 32 << 20

    @pytest.mark.skipif(sys.platform != "linux", reason="memory is measured with getrusage in units of Linux")
    @pytest.mark.parametrize("name", ["m.npy", "m.npz"])
    def test_unpacked_fortran_order_streams(self, tmp_path, name):
        array = np.zeros((1 << 13, 1 << 14), np.uint8, order="F")
        array[1, 0] = array[0, 3] = 7
        np.save(tmp_path / name, array) if name == "m.npy" else np.savez(tmp_path / name, m=array)
        assert measured(tmp_path / name)[0] == "converted"
        with open_oinf(tmp_path / f"{name}.oinf") as file:
            assert np.argwhere(file["m"]).tolist() == [[0, 3], [1, 0]]

    @pytest.mark.parametrize("save", [np.save, np.savez, np.savez_compressed])
    def test_fortran_order_of_any_rank_and_byte_order(self, tmp_path, save):
        arrays = {
            "a": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
            "b": np.asfortranarray(np.arange(6, dtype=">i4").reshape(3, 2)),
            "none": np.zeros((0, 3), order="F"),
        }
        for name, array in arrays.items():
            path = tmp_path / (f"{name}.npy" if save is np.save else f"{name}.npz")
            save(path, array) if save is np.save else save(path, **{name: array})
            convert_to_oinf(path, tmp_path / "out.oinf")
            with open_oinf(tmp_path / "out.oinf") as file:
                np.testing.assert_array_equal(file[name], array)

    def test_the_length_of_a_header_is_checked_before_it_is_read(self, tmp_path):
        path = tmp_path / "m.npz"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            target.writestr("w.npy", b"\x93NUMPY\2\0" + struct.pack("<I", 1 << 27) + b" " * (1 << 27))
        assert path.stat().st_size < 1 << 20
        reported, grown = measured(path)
        assert reported == "E_SOURCE w"
        assert grown < 32 << 20

    @pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    def test_packings_that_numpy_does_not_write_are_refused(self, tmp_path, packing):
        path = tmp_path / "m.npz"
        member = io.BytesIO()
        np.save(member, np.ones(3))
        with zipfile.ZipFile(path, "w", packing) as target:
            target.writestr("w.npy", member.getvalue())
        assert refused(path).entry == "w"

    def test_a_damaged_member_in_fortran_order_is_found_by_its_checksum(self, tmp_path):
        path = tmp_path / "m.npz"
        np.savez(path, w=np.asfortranarray(np.arange(6.0).reshape(2, 3)))
        data = bytearray(path.read_bytes())
        data[data.index(np.float64(5).tobytes())] ^= 1
        path.write_bytes(data)
        assert "CRC" in str(refused(path))


def test_the_command_takes_the_limit(tmp_path, capsys):
    path = tmp_path / "m.npz"
    np.savez_compressed(path, w=np.zeros(1_000_000, np.uint8))
    command = ["convert", str(path), str(tmp_path / "out.oinf"), "--unpacked-limit"]
    assert main([*command, "999999"]) == 1
    assert "--unpacked-limit" in capsys.readouterr().err
    assert main([*command, "1000000"]) == 0


class TestHdf5:
    @pytest.fixture(autouse=True)
    def h5py(self):
        return pytest.importorskip("h5py", reason="h5py is not installed")

    def test_a_large_dataset_that_was_never_written_is_refused(self, h5py, tmp_path):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as target:
            target.create_dataset("w", (1 << 40,), "f4", chunks=(1024,))
        assert refused(path).entry == "w"
        convert_to_oinf(path, tmp_path / "out.oinf", ConversionOptions(read=ReadOptions(skip_unsupported=True)))

    def test_a_small_dataset_that_was_never_written_has_its_fill_value(self, h5py, tmp_path):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as target:
            target.create_dataset("w", (3,), "f4", chunks=(2,), fillvalue=1.5)
        (change,) = convert_to_oinf(path, tmp_path / "out.oinf")
        assert str(change) == "filled w: never written: its fill value"
        with open_oinf(tmp_path / "out.oinf") as file:
            assert file["w"].tolist() == [1.5, 1.5, 1.5]

    def test_many_small_ones_count_together(self, h5py, tmp_path):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as target:
            for at in range(10):
                target.create_dataset(f"w{at}", (100_000,), "u1", chunks=(1000,))
        assert refused(path, unpacked_nbytes=500_000).entry == "w5"

    def test_chunks_that_unpack_to_more_than_is_stored_gives_reason_for(self, h5py, tmp_path):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as target:
            target.create_dataset("w", (1 << 27,), "u1", chunks=(1 << 27,), compression="gzip")[:5] = 1
        assert "chunks of" in str(refused(path))

    def test_a_list_of_texts_is_not_read(self, h5py, tmp_path):
        path = tmp_path / "m.h5"
        with h5py.File(path, "w") as target:
            target.attrs.create("names", ["x" * 1000] * 1000, dtype=h5py.string_dtype())
        (change,) = convert_to_oinf(path, tmp_path / "out.oinf")
        assert (change.kind, change.name) == ("dropped", "names")


def gguf(pairs: bytes = b"", n_pairs: int = 0, tensors: bytes = b"", n_tensors: int = 0) -> bytes:
    """The format by its definition: magic, version, counts, key-value pairs, tensor infos."""
    return b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_pairs) + pairs + tensors


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


ARRAY = 9
GGUF_BOMBS = {
    "an array of 2**60 bytes": gguf(text(b"a") + struct.pack("<IIQ", ARRAY, 0, 1 << 60), 1),
    "an array of 2**60 texts": gguf(text(b"a") + struct.pack("<IIQ", ARRAY, 8, 1 << 60), 1),
    "arrays in one another": gguf(text(b"a") + struct.pack("<I", ARRAY) + struct.pack("<IQ", ARRAY, 1) * 100_000, 1),
    "2**60 pairs": gguf(b"", 1 << 60),
    "2**60 tensors": gguf(b"", 0, b"", 1 << 60),
    "a text of 2**60 bytes": gguf(struct.pack("<Q", 1 << 60), 1),
    "a tensor of 2**32 - 1 dimensions": gguf(b"", 0, text(b"t") + struct.pack("<I", 0xFFFFFFFF) + bytes(100), 1),
    "a tensor larger than the file": gguf(b"", 0, text(b"t") + struct.pack("<IQIQ", 1, 1 << 50, 0, 0) + bytes(100), 1),
    "dimensions whose product wraps": gguf(
        b"", 0, text(b"t") + struct.pack("<IQQIQ", 2, 1 << 33, 1 << 33, 0, 0) + bytes(100), 1
    ),
    "an offset that wraps": gguf(b"", 0, text(b"t") + struct.pack("<IQIQ", 1, 8, 0, (1 << 64) - 64) + bytes(100), 1),
    "an unknown type": gguf(text(b"a") + struct.pack("<I", 13), 1),
}


class TestGguf:
    @pytest.fixture(autouse=True)
    def gguf(self):
        return pytest.importorskip("gguf", reason="gguf is not installed")

    @pytest.mark.parametrize("what", GGUF_BOMBS)
    def test_counts_beyond_the_file_are_refused_before_the_library_follows_them(self, tmp_path, what):
        path = tmp_path / "m.gguf"
        path.write_bytes(GGUF_BOMBS[what])
        refused(path)

    def test_blocks_may_have_infinite_scales(self, tmp_path):
        blocks = struct.pack("<e", np.inf) + bytes([0, 1] * 16)
        head = gguf(b"", 0, text(b"t") + struct.pack("<IQIQ", 1, 32, 8, 0), 1)
        path = tmp_path / "m.gguf"
        path.write_bytes(head.ljust(-(-len(head) // 32) * 32, b"\0") + blocks)
        convert_to_oinf(path, tmp_path / "out.oinf")
        with open_oinf(tmp_path / "out.oinf") as file:
            np.testing.assert_array_equal(file["t"], [np.nan, np.inf] * 16)

    def test_payloads_under_many_names_count_each_time(self, tmp_path):
        names = [f"t{at}".encode() for at in range(100)]
        infos = b"".join(text(name) + struct.pack("<IQIQ", 1, 1000, 0, 0) for name in names)
        head = gguf(b"", 0, infos, len(names))
        path = tmp_path / "m.gguf"
        path.write_bytes(head.ljust(-(-len(head) // 32) * 32, b"\0") + bytes(4000))
        convert_to_oinf(path, tmp_path / "fine.oinf")
        assert "unpacks to" in str(refused(path, unpacked_nbytes=300_000))


def state_dict(count: int = 4, key: str = "0", *, rebuild: tuple[str, str] = ("torch._utils", "_rebuild_tensor_v2")):
    """The pickle of {"w": a tensor of `count` f32 elements in storage `key`}, protocol 2, spelt out."""
    module, name = (part.encode() for part in rebuild)
    storage = b"(X\7\0\0\0storagectorch\nFloatStorage\nX" + struct.pack("<I", len(key)) + key.encode()
    storage += b"X\3\0\0\0cpuJ" + struct.pack("<i", count) + b"tQ"
    view = b"K\0J" + struct.pack("<i", count) + b"\x85K\1\x85\x89ccollections\nOrderedDict\n)R"
    return b"\x80\2}X\1\0\0\0wc" + module + b"\n" + name + b"\n(" + storage + view + b"tRs."


def archive(path, pickled: bytes, *, compression=zipfile.ZIP_STORED, **storages: bytes):
    with zipfile.ZipFile(path, "w", compression) as target:
        target.writestr("m/data.pkl", pickled)
        target.writestr("m/version", b"3\n")
        for key, data in storages.items():
            target.writestr(f"m/data/{key.removeprefix('_')}", data)
    return path


class TestTorchWithoutTheLibrary:
    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "m.pt"

    def test_texts_of_the_file_are_reported_as_escapes(self, path):
        archive(path, state_dict(key="\x1b[31m"), _0=bytes(16))
        with pytest.raises(OinfError, match=r"storage \\x1b\[31m is to hold") as caught:
            check_torch(path)
        assert str(caught.value).isprintable()

    def test_a_sound_file_passes(self, path):
        check_torch(archive(path, state_dict(), _0=bytes(16)))

    @pytest.mark.parametrize(
        ("pickled", "message"),
        [
            (state_dict(key="1"), "storage 1 is to hold 16 bytes, and does not exist"),
            (state_dict(count=5), "storage 0 is to hold 20 bytes, and has 16"),
            (state_dict(count=-1), "does not name a storage"),
            (state_dict(rebuild=("os", "system")), "os.system refused by the restricted unpickler"),
            (state_dict(rebuild=("builtins", "eval")), "builtins.eval refused"),
            (state_dict(rebuild=("numpy", "load")), "numpy.load refused"),
            (state_dict()[:-1], "not a sound"),
            (b"\x80\2}(K\0\x85K\1u.", "neither a text nor a whole number"),
            (b"\x80\2}G" + struct.pack(">d", 1.5) + b"K\1s.", "neither a text nor a whole number"),
            (b"\x80\2}\x8a\x09" + bytes(8) + b"\1K\1s.", "neither a text nor a whole number"),
            (b"\x80\2(K\0\x85K\1d.", "neither a text nor a whole number"),
            (b"\x80\4\x8f(K\0\x85\x90.", "neither a text nor a whole number"),
            (b"\x80\4(K\0\x85\x91.", "neither a text nor a whole number"),
            (b"\x80\2cbuiltins\nset\n](K\0\x85e\x85R.", "neither a text nor a whole number"),
            (b"\x80\2ccollections\nOrderedDict\n](K\0\x85K\1\x86e\x85R.", "neither a text nor a whole number"),
            (b"\x80\2c_codecs\nencode\nX\1\0\0\0aX\4\0\0\0idna\x86R.", "and its encoding"),
            (b"\x80\2cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "and its encoding"),
            (b"\x80\2(X\7\0\0\0storageK\0K\0K\0K\0tQ.", "does not name a storage"),
            (b"\x80\2}K\1s.", "not a sound"),
            (b"\x80\4\x96" + struct.pack("<Q", 1 << 40) + b".", "not a sound"),
            (b"\x80\4\x8d" + struct.pack("<Q", 1 << 40) + b".", "not a sound"),
            (b"\x80\2h\7.", "not a sound"),
            (b"\x80\2K\0t.", "not a sound"),
            (b"", "not a sound"),
        ],
    )
    def test_pickles_that_are_refused(self, path, pickled, message):
        with pytest.raises(OinfError, match=message) as caught:
            check_torch(archive(path, pickled, _0=bytes(16)))
        assert caught.value.code == "E_SOURCE"

    @pytest.mark.parametrize(
        "twice",
        [b"INNERINNER\x86", b"](INNERINNERe", b"}(X\1\0\0\0aINNERX\1\0\0\0bINNERu"],
        ids=["tuples", "lists", "dicts"],
    )
    def test_objects_in_one_another_count_each_time_that_they_are_reached(self, path, twice):
        levels = (twice.replace(b"INNER", b"h" + bytes([at])) + b"q" + bytes([at + 1]) for at in range(60))
        with pytest.raises(OinfError, match="stand for more than 419"):
            check_torch(archive(path, b"\x80\2)q\0" + b"".join(levels) + b"."))

    def test_lists_that_are_filled_from_the_outermost_on_count_too(self, path):
        made = b"".join(b"]q" + bytes([at]) for at in range(60))
        filled = b"".join(b"h" + bytes([at]) + (b"h" + bytes([at + 1])) * 2 + b"\x86a" for at in range(59))
        with pytest.raises(OinfError, match="stand for more than 419"):
            check_torch(archive(path, b"\x80\2" + made + filled + b"h\0."))

    def test_objects_that_hold_themselves_end(self, path):
        check_torch(archive(path, b"\x80\2]q\0(h\0h\0eh\0h\0\x86q\1h\0h\1a."))

    def test_steps_of_a_table_are_counted_and_not_taken(self):
        """Numbers that all collide take as many comparisons as there are pairs of them."""
        work = Work(1 << 40)
        keys = Keys(work)
        for at in range(1000):
            keys.add(at)
        assert work.spent == 1000
        for at in range(1000):
            keys.add((7 + at * 5) % 1000)
        assert work.spent > 1000 * 1000

    @pytest.mark.parametrize("step", [3 << 40, 97, -1])
    def test_numbers_that_may_collide_are_refused_where_they_are_many(self, path, step):
        keys = b"".join(b"\x8a\x08" + struct.pack("<q", at * step) + b"N" for at in range(20_000))
        with pytest.raises(OinfError, match="a pickle that takes more than"):
            check_torch(archive(path, b"\x80\2}(" + keys + b"u."))

    def test_a_table_made_again_and_again_from_one_list_is_refused(self, path):
        listed = b"](" + b"X\1\0\0\0a" * 20_000 + b"e\x85q\0"
        again = b"cbuiltins\nset\nq\1" + b"h\1h\0R" * 2_000
        with pytest.raises(OinfError, match="a pickle that takes more than"):
            check_torch(archive(path, b"\x80\2" + listed + again + b"."))

    def test_places_of_the_memo_count_as_keys(self, path):
        places = b"".join(b"Np%d\n" % (at * 97) for at in range(20_000))
        with pytest.raises(OinfError, match="a pickle that takes more than"):
            check_torch(archive(path, b"\x80\2" + places + b"."))

    @pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
    def test_what_optimisers_keep_passes(self, path, protocol):
        """Thousands of states by number, some parameters without any, shared settings, and counters."""
        settings = {"lr": 0.1, "betas": (0.9, 0.999), "name": "adam", "flags": [True, None, 7]}
        state = {at: {"step": at, "settings": settings} for at in range(5_000) if at % 50}
        kept = {"state": state, "epochs": Counter({30: 1, 60: 2}), "order": OrderedDict(a=1, b=2), None: {True: b"x"}}
        check_torch(archive(path, pickle.dumps(kept, protocol)))

    def test_what_a_pickle_names_is_not_called(self, path, tmp_path):
        target = str(tmp_path / "ran")
        harm = b"cio\nopen\n(X" + struct.pack("<I", len(target)) + target.encode() + b"X\1\0\0\0wtR."
        with pytest.raises(OinfError, match=r"io\.open refused"):
            check_torch(archive(path, b"\x80\2" + harm))
        assert not (tmp_path / "ran").exists()

    def test_memorised_objects_take_no_room_for_others(self, path):
        check_torch(archive(path, b"\x80\2}r\xff\xff\xff\x7f."))

    def test_packed_members_are_refused(self, path):
        with pytest.raises(OinfError, match="compress") as caught:
            check_torch(archive(path, state_dict(), compression=zipfile.ZIP_DEFLATED, _0=bytes(1 << 20)))
        assert caught.value.code == "E_SOURCE"

    def test_an_archive_without_a_pickle_is_refused(self, path):
        with zipfile.ZipFile(path, "w") as target:
            target.writestr("m/version", b"3\n")
        with pytest.raises(OinfError, match=r"data\.pkl"):
            check_torch(path)

    @pytest.mark.parametrize("size", [0, 15, 16])
    def test_the_form_without_an_archive_is_checked_for_room(self, path, size):
        head = b"".join(pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
        legacy = state_dict().replace(b"cpuJ\4\0\0\0tQ", b"cpuJ\4\0\0\0NtQ")
        path.write_bytes(head + legacy + pickle.dumps(["0"], 2) + bytes(size))
        if size == 16:
            check_torch(path)
            return
        with pytest.raises(OinfError, match="hold 16 bytes"):
            check_torch(path)

    @pytest.mark.parametrize("data", [b"", b"PK\3\4 broken", b"\x80\2broken", b"no pickle"])
    def test_broken_files(self, path, data):
        path.write_bytes(data)
        with pytest.raises(OinfError) as caught:
            check_torch(path)
        assert caught.value.code == "E_SOURCE"

    def test_damaged_archives_are_errors_of_ours_or_pass(self, path):
        data = archive(path, state_dict(), _0=bytes(16)).read_bytes()
        codes = set()
        for at in range(len(data)):
            for value in (0, 0x81, 0xFF):
                path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
                try:
                    check_torch(path)
                except OinfError as error:
                    codes.add(error.code)
        assert codes == {"E_SOURCE"}

    @pytest.mark.parametrize(("numel", "held", "expected"), [(1 << 34, 4, True), (2, 4, True), (1, 4, False)])
    def test_expanded_tensors_are_reported(self, numel, held, expected):
        storage = SimpleNamespace(nbytes=lambda: held)
        tensor = SimpleNamespace(numel=lambda: numel, element_size=lambda: 4, untyped_storage=lambda: storage)
        assert torch_file._is_expanded(tensor) == expected

    def test_dicts_in_one_another_many_times_end(self):
        table: dict[str, object] = {"w": 1}
        for _ in range(60):
            table = {"a": table, "b": table}
        with pytest.raises(OinfError, match="entries"):
            list(torch_file._flattened(table))


class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason="torch is not installed")

    def test_expanded_tensors_are_refused_or_left_out(self, torch, tmp_path):
        path = tmp_path / "m.pt"
        torch.save({"w": torch.ones(1).expand(1 << 34), "v": torch.ones(2)}, path)
        assert refused(path).entry == "w"
        read = ReadOptions(skip_unsupported=True)
        changes = convert_to_oinf(path, tmp_path / "out.oinf", ConversionOptions(read=read))
        assert [(change.kind, change.name) for change in changes] == [("dropped", "w")]

    def test_hand_made_files_of_these_tests_are_such_as_the_library_reads(self, tmp_path):
        values = np.float32([1, 2, 3, 4])
        path = archive(tmp_path / "m.pt", state_dict(), _0=values.tobytes())
        convert_to_oinf(path, tmp_path / "out.oinf")
        with open_oinf(tmp_path / "out.oinf") as file:
            assert file["w"].tolist() == values.tolist()

    def test_the_form_without_an_archive(self, torch, tmp_path):
        path = tmp_path / "m.pt"
        torch.save({"w": torch.arange(4)}, path, _use_new_zipfile_serialization=False)
        convert_to_oinf(path, tmp_path / "out.oinf")
        with open_oinf(tmp_path / "out.oinf") as file:
            assert file["w"].tolist() == [0, 1, 2, 3]


class TestJson:
    @pytest.mark.parametrize("bomb", [b'{"a":' * 100_000, b"[" * 1_000_000, b'{"a":"]]]]"' + b',"b":[' * 65])
    def test_nesting_is_counted_before_anything_is_parsed(self, bomb, monkeypatch):
        monkeypatch.setattr(json, "loads", None)
        with pytest.raises(OinfError, match="nested more than 64 deep"):
            json_object(bomb, "it", "E_SOURCE")

    def test_brackets_in_texts_do_not_count(self):
        table = {"a" * 10: "[{" * 1000, '"' + "[" * 100: "\\" + "]" * 3, "deep": [[[[{}]]]]}
        assert json_object(json.dumps(table).encode(), "it", "E_SOURCE") == table

    @pytest.mark.parametrize("name", ["m.oinf.index.json", "m.safetensors.index.json", "m.safetensors"])
    def test_every_reader_of_json_refuses_it(self, tmp_path, name):
        bomb = b'{"weight_map":' + b"[" * 200_000
        path = tmp_path / name
        path.write_bytes(bomb if name.endswith(".json") else struct.pack("<Q", len(bomb)) + bomb)
        with pytest.raises(OinfError, match="nested more than 64 deep"):
            open_oinf(path) if "oinf" in name else convert_to_oinf(path, tmp_path / "out.oinf")


def test_a_truncated_archive_claims_no_disk(tmp_path):
    """A directory that states a larger member than there is ends at the limit or at the end of the file."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made:
        header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}"
        made.writestr("w.npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
    data = bytearray(target.getvalue())
    at = data.index(b"PK\1\2")
    data[at + 24 : at + 28] = b"\xff\xff\xff\x7f"
    path = tmp_path / "m.npz"
    path.write_bytes(data)
    refused(path)


def test_escapes_that_python_deprecates_are_read_without_a_warning():
    check_pickle(io.BytesIO(b"c\\w\nx\n."))
