"""Inputs and results of batches in files."""

from __future__ import annotations

import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.batch.answers import Outcome
from openinfer.batch.inputs import open_inputs
from openinfer.batch.run import only_input
from openinfer.cli.batch_results import FolderResults, StackedResults
from openinfer.dtypes import F32
from openinfer.simulate.values import Tensor


def alone() -> str:
    return "x"


def test_rows_of_an_archive_are_inputs(tmp_path: Path) -> None:
    x, n = np.arange(12, dtype=np.float32).reshape(3, 2, 2), np.array([5, 6, 7], np.int64)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "b.npz", x=x, n=n)
        inputs = open_inputs(str(tmp_path / "b.npz"), alone)
        assert inputs.stems == ("0", "1", "2")
        read = [item.load() for item in inputs]
        assert [r["x"].tolist() for r in read] == x.tolist()
        assert [(r["n"].shape, int(r["n"])) for r in read] == [((), 5), ((), 6), ((), 7)]


def test_rows_of_a_single_array_are_for_the_only_variable(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.arange(6).reshape(3, 2))
    inputs = open_inputs(str(tmp_path / "b.npy"), alone)
    assert [item.load()["x"].tolist() for item in inputs] == [[0, 1], [2, 3], [4, 5]]


def test_files_of_a_folder_are_inputs_in_the_order_of_their_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "b.npz", x=[2], n=[3])
    np.save(tmp_path / "a.npy", [1])
    (tmp_path / "notes.txt").write_text("not an input")
    for source in (str(tmp_path), str(tmp_path / "*.np?")):
        inputs = open_inputs(source, alone)
        assert inputs.stems == ("a", "b")
        assert [{k: v.tolist() for k, v in i.load().items()} for i in inputs] == [{"x": [1]}, {"x": [2], "n": [3]}]


def test_results_of_files_whose_names_are_the_same_are_numbered(tmp_path: Path) -> None:
    for name in ("a.npy", "a.npz", "b.npy"):
        np.savez(tmp_path / name.replace("npy", "npz"), x=[1])
        np.save(tmp_path / name.replace("npz", "npy"), [1])
    assert open_inputs(str(tmp_path), alone).stems == ("0-a", "1-a", "2-b", "3-b")


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (lambda f: np.savez(f, x=np.zeros(2), y=np.zeros(3)), "different numbers of inputs.*: x 2, y 3"),
        (lambda f: np.savez(f, x=np.float32(1)), "a single number"),
        (lambda f: np.savez(f), "holds no arrays"),
        (lambda f: np.savez(f, x=np.array([object()])), "Python objects"),
        (lambda f: np.savez(f, x=np.asfortranarray(np.zeros((2, 3)))), "column by column"),
        (lambda f: f.write_bytes(b"PK\x03\x04 and no more"), "cannot be read as arrays"),
        (lambda f: f.write_bytes(b""), "cannot be read as arrays"),
    ],
)
def test_an_archive_that_holds_no_inputs_says_why(tmp_path: Path, save: Callable[[Path], None], message: str) -> None:
    save(tmp_path / "b.npz")
    with pytest.raises(oi.ExecutionError, match=message) as caught:
        open_inputs(str(tmp_path / "b.npz"), alone)
    assert caught.value.code == "input-file"


def test_results_are_saved_in_a_folder_that_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder") as caught:
        StackedResults(tmp_path / "none" / "y.npz", ["y"], [])
    assert caught.value.filename == str(tmp_path / "none")


def test_an_array_that_claims_more_than_its_file_holds_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2, np.float32))
    data = (tmp_path / "a.npy").read_bytes().replace(b"(2,), }", b"(10**9,), }".replace(b"10**9", b"9999"))
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(tmp_path / "a.npy"), alone)


@pytest.mark.filterwarnings("ignore:Reading .* additional header parsing:UserWarning")
@given(st.binary(max_size=80), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_rubbish_in_an_archive_is_an_error(rubbish: bytes, place: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "b.npz")
        np.savez_compressed(file, x=np.arange(6).reshape(3, 2))
        data = file.read_bytes()
        file.write_bytes(data[:place] + rubbish + data[place + len(rubbish) :])
        with suppress(oi.ExecutionError):
            for item in open_inputs(str(file), alone):
                item.load()


@pytest.mark.parametrize("change", [100, -1])
def test_an_archive_whose_directory_leads_out_of_it_is_an_error(tmp_path: Path, change: int) -> None:
    file = tmp_path / "b.npz"
    np.savez(file, x=np.zeros(2))
    data = file.read_bytes()
    # The last 6 bytes: where the directory starts, and the length of a comment.
    (start,) = struct.unpack("<I", data[-6:-2])
    file.write_bytes(data[:-6] + struct.pack("<I", start + change) + data[-2:])
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(file), alone)


def test_a_header_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(2))
    data = (tmp_path / "a.npy").read_bytes().replace(b"}", b"(")
    (tmp_path / "a.npy").write_bytes(data)
    with pytest.raises(oi.ExecutionError, match="cannot be read as arrays"):
        open_inputs(str(tmp_path / "a.npy"), alone)


def test_a_source_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("")
    for source in (str(tmp_path), str(tmp_path / "*.npz"), str(tmp_path / "missing.npz")):
        with pytest.raises(oi.ExecutionError, match="names no inputs"):
            open_inputs(source, alone)
    with pytest.raises(oi.ExecutionError, match=r"neither \.npz nor \.npy"):
        open_inputs(str(tmp_path / "a.txt"), alone)


def test_the_only_variable_is_the_one_that_needs_a_value() -> None:
    graph = oi.graph("dynamic { x: f32; y: f32; s: f32 @init(1.0); } block entry { return; }")
    assert only_input(graph, ["x"]) == "y"
    assert only_input(graph, ["x", "y"]) == "s"
    with pytest.raises(oi.ExecutionError, match="found `x`, `y`"):
        only_input(graph)


def done(index: int, **outputs: np.ndarray) -> Outcome:
    return Outcome(index, f"input {index}", {name: Tensor(F32, a.shape, a) for name, a in outputs.items()})


def test_results_of_all_inputs_are_in_one_archive_with_the_numbers_of_their_inputs(tmp_path: Path) -> None:
    results = StackedResults(tmp_path / "r.npz", ["file", "y"], [])
    rows = [np.array([i, i + 0.5], np.float32) for i in range(4)]
    for index in (0, 2, 3):
        results.add(done(index, file=rows[index], y=np.array(index, np.float32)))
    results.add(Outcome(1, "b", {}, oi.ExecutionError("no")))
    assert list(tmp_path.iterdir()) == []
    results.finish()
    results.close()
    with np.load(tmp_path / "r.npz") as found:
        assert found["file"].tolist() == [[0, 0.5], [2, 2.5], [3, 3.5]]
        assert found["y"].dtype == np.float32
        assert found["batch.index"].tolist() == [0, 2, 3]


def test_outputs_that_differ_in_shape_are_saved_one_by_one_only(tmp_path: Path) -> None:
    stacked = StackedResults(tmp_path / "r.npz", ["y"], [])
    stacked.add(done(0, y=np.zeros(2, np.float32)))
    with pytest.raises(oi.ExecutionError, match=r"\[3\], float32 \[2\] before.*--output-dir"):
        stacked.add(done(1, y=np.zeros(3, np.float32)))
    stacked.close()
    folder = FolderResults(str(tmp_path / "out"), ("a", "b"), [])
    for index in range(2):
        folder.add(done(index, y=np.zeros(2 + index, np.float32)))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.npz", "b.npz"]
    assert np.load(tmp_path / "out" / "b.npz")["y"].shape == (3,)


def test_the_same_results_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for now in (1e9, 1.5e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        folder = FolderResults(str(tmp_path), ("a",), [])
        folder.add(done(0, y=np.ones(3, np.float32)))
        written.append((tmp_path / "a.npz").read_bytes())
    assert written[0] == written[1]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.npz").write_bytes(b"before")
    folder = FolderResults(str(tmp_path), ("a",), [])

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        folder.add(done(0, y=np.ones(3, np.float32)))
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("a.npz", b"before")]


def test_a_result_never_takes_the_place_of_an_input(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    for make in (lambda: FolderResults(str(tmp_path), ("a",), [file]), lambda: StackedResults(file, ["y"], [file])):
        with pytest.raises(oi.ExecutionError, match="is an input") as caught:
            make()
        assert caught.value.code == "batch-output"
