"""Models in several files."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from openinfer_oinf import OinfError, TensorSpec, UninitializedTensor, open_oinf, save_file, save_shards, verify_oinf
from openinfer_oinf.cli import main
from openinfer_oinf.digest import content_digest

TENSORS = {f"w.{at}": TensorSpec(np.full(4, at, np.float32)) for at in range(5)} | {
    "cache": UninitializedTensor("f16", (2,)),
    "n": TensorSpec([-8, 7], dtype="i4"),
}
TABLES = {"sizevars": {"B": 4}, "metadata": {"mode": "fast", "note.utf8": "free text"}}


@pytest.fixture
def index(tmp_path):
    path = tmp_path / "m.oinf.index.json"
    save_shards(TENSORS, path, shard_nbytes=32, **TABLES)
    return path


def write_index(path, weight_map) -> None:
    path.write_text(json.dumps({"weight_map": weight_map}))


def test_shards_are_bounded_and_named(index):
    weight_map = json.loads(index.read_text())["weight_map"]
    assert weight_map.keys() == TENSORS.keys()
    assert sorted(set(weight_map.values())) == [f"m-0000{at}-of-00003.oinf" for at in (1, 2, 3)]
    for name in set(weight_map.values()):
        with open_oinf(index.with_name(name)) as shard:
            assert sum(tensor.nbytes for tensor in shard.tensors()) <= 32


@pytest.mark.rule("container.shards.1")
@pytest.mark.parametrize("mmap", [True, False])
def test_an_index_opens_as_one_container(index, tmp_path, mmap):
    whole = tmp_path / "whole.oinf"
    save_file(TENSORS, whole, **TABLES)
    with open_oinf(index, mmap=mmap) as file, open_oinf(whole) as other:
        assert (list(file), len(file)) == (list(other), len(other))
        assert dict(file.sizevars) == {"B": 4}
        assert dict(file.metadata) == {"mode": "fast", "note.utf8": "free text"}
        assert [file[f"w.{at}"].tolist() for at in range(5)] == [[float(at)] * 4 for at in range(5)]
        assert file["n"].tolist() == [-8, 7]
        assert file.get("cache") is None
        assert list(file.with_prefix("w.")) == [f"w.{at}" for at in range(5)]
        assert "absent" not in file
        with pytest.raises(KeyError, match="did you mean"):
            file.tensor("w.9")
        with pytest.raises(KeyError, match="metadata key"):
            file.metadata.typed("absent")
        assert content_digest(file) == content_digest(other)


def test_commands_take_an_index(index, tmp_path, capsys):
    assert main(["verify", str(index)]) == 0
    assert "B := 4" in capsys.readouterr().out
    assert main(["inspect", "--offsets", str(index)]) == 0
    assert capsys.readouterr().out.count("layout,") == 3
    assert main(["inspect", "--json", str(index)]) == 0
    assert json.loads(capsys.readouterr().out)["sections"] is None
    assert main(["upgrade", str(index), str(tmp_path / "whole.oinf")]) == 0
    assert main(["diff", str(index), str(tmp_path / "whole.oinf"), "--values"]) == 0


def test_checksums_of_every_shard_are_compared(tmp_path):
    index = tmp_path / "m.oinf.index.json"
    save_shards(TENSORS, index, shard_nbytes=32, checksums=True)
    assert verify_oinf(index, file=False, deep=True).warnings == ()
    last = tmp_path / "m-00003-of-00003.oinf"
    with open_oinf(last) as shard:
        offset = shard.tensor("w.4").offset
    data = bytearray(last.read_bytes())
    data[offset] ^= 1
    last.write_bytes(data)
    with pytest.raises(OinfError) as caught:
        verify_oinf(index, file=False, deep=True)
    assert (caught.value.code, caught.value.entry) == ("E_CHECKSUM", "w.4")
    with open_oinf(index) as file:
        with pytest.raises(OinfError, match="E_CHECKSUM"):
            _ = file["w.4"]
        assert file["w.0"].tolist() == [0.0] * 4


@pytest.mark.rule("container.shards.2")
@pytest.mark.parametrize(
    "weight_map",
    [
        {"a": "../a.oinf"},
        {"a": "/a.oinf"},
        {"a": "sub\\a.oinf"},
        {"a": ".."},
        {"a": 1},
        {"a": "a.oinf", "x": "a.oinf"},
        {"a": "b.oinf"},
        {"b": "b.oinf"},
        [],
    ],
)
def test_indexes_that_do_not_agree_with_their_shards(tmp_path, weight_map):
    save_file({"a": np.ones(1)}, tmp_path / "a.oinf")
    save_file({"b": np.ones(1), "c": np.ones(1)}, tmp_path / "b.oinf")
    write_index(tmp_path / "m.oinf.index.json", weight_map)
    with pytest.raises(OinfError) as caught:
        open_oinf(tmp_path / "m.oinf.index.json")
    assert caught.value.code == "E_SHARDS"
    assert "m.oinf.index.json" in str(caught.value)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"a":' * 50_000, b"\xff", b'{"weight_map":{},"weight_map":{}}'])
def test_indexes_that_are_not_json_objects(tmp_path, text):
    (tmp_path / "m.oinf.index.json").write_bytes(text)
    with pytest.raises(OinfError) as caught:
        open_oinf(tmp_path / "m.oinf.index.json")
    assert caught.value.code == "E_SHARDS"


@pytest.mark.parametrize("table", ["tensors", "sizevars", "metadata"])
def test_a_name_in_two_shards_is_an_error(tmp_path, table):
    tables = {"tensors": {}, "sizevars": {}, "metadata": {}} | {table: {"n": np.ones(1) if table == "tensors" else 1}}
    weight_map = {}
    for name in "ab":
        parts = {**tables, "tensors": tables["tensors"] | {name: np.ones(1)}}
        save_file(parts.pop("tensors"), tmp_path / f"{name}.oinf", **parts)
        weight_map[name] = f"{name}.oinf"
    write_index(tmp_path / "m.oinf.index.json", weight_map)
    with pytest.raises(OinfError) as caught:
        open_oinf(tmp_path / "m.oinf.index.json")
    assert (caught.value.code, caught.value.table, caught.value.entry) == ("E_DUPLICATE", table, "n")


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="the system has no links")
def test_links_are_not_followed(index):
    shard = index.with_name("m-00002-of-00003.oinf")
    elsewhere = index.with_name("elsewhere.oinf")
    shard.rename(elsewhere)
    shard.symlink_to(elsewhere)
    with pytest.raises(OinfError, match="is a link"):
        open_oinf(index)


def test_a_shard_that_is_missing_or_broken_is_named(index):
    shard = index.with_name("m-00002-of-00003.oinf")
    data = shard.read_bytes()
    shard.write_bytes(data[:-8])
    with pytest.raises(OinfError, match=r"m-00002-of-00003\.oinf.*E_FILE_SIZE"):
        open_oinf(index)
    shard.unlink()
    with pytest.raises(FileNotFoundError):
        open_oinf(index)


def test_closing_closes_every_shard(index):
    with open_oinf(index) as file:
        kept = file["w.0"]
    assert kept.tolist() == [0.0] * 4
    with pytest.raises(OinfError, match="E_CLOSED"):
        _ = file["w.1"]


def test_an_index_needs_its_suffix(tmp_path):
    with pytest.raises(OinfError, match="ends in"):
        save_shards(TENSORS, tmp_path / "m.json", shard_nbytes=32)


def test_a_model_without_tensors_is_not_lost_in_an_index(tmp_path):
    with pytest.raises(OinfError, match="without tensors") as caught:
        save_shards({}, tmp_path / "m.oinf.index.json", shard_nbytes=10, sizevars={"B": 4})
    assert caught.value.code == "E_SHARDS"
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(index, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    tensors = TENSORS | {"x": TensorSpec([9], dtype="i4")}
    with pytest.raises(OinfError, match="do not fit i4"):
        save_shards(tensors, index, shard_nbytes=32, **TABLES)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_shards_are_written_over_older_ones(index, tmp_path):
    doubled = {name: TensorSpec(np.full(4, 2 * at, np.float32)) for at, name in enumerate(("w.0", "w.1", "w.2"))}
    save_shards(doubled, index, shard_nbytes=16)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    with open_oinf(index) as file:
        assert {name: array.tolist() for name, array in file.items()} == {
            name: [2.0 * at] * 4 for at, name in enumerate(doubled)
        }


def test_what_only_single_files_have_is_in_the_parts(index):
    with open_oinf(index) as file:
        for ask in (lambda: file.index, lambda: file.checksums):
            with pytest.raises(OinfError, match="E_SHARDS"):
                ask()
        assert [part.checksums.exist for part in file.parts] == [False] * 3


def test_no_container_is_written_under_the_name_of_an_index(tmp_path):
    with pytest.raises(OinfError, match="that of a shard index"):
        save_file({"w": np.ones(2)}, tmp_path / "m.oinf.index.json")
    assert not list(tmp_path.iterdir())
