"""Containers as .safetensors and .npz, and back again."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from openinfer_oinf import (
    Bitset,
    QuantizeOptions,
    QuantParams,
    QuantScale,
    TensorSpec,
    UninitializedTensor,
    convert_to_oinf,
    open_oinf,
    quantize_oinf,
    save_file,
    save_shards,
    verify_oinf,
    write_oinf,
)
from openinfer_oinf.cli import main
from openinfer_oinf.progress import advance, expect, progress_bar
from openinfer_oinf.valuetypes import VALUE_TYPES

NATIVE = {each.name: TensorSpec([0, 1, 0], dtype=each.name) for each in VALUE_TYPES if each.bits >= 8}
del NATIVE["bitset"]
PACKED = {"i4": [-8, 7, 0], "u2": [3, 0, 1], "t1": [-1, 1, 1]}


@pytest.fixture
def paths(tmp_path):
    return [str(tmp_path / name) for name in ("m.oinf", "m.safetensors", "back.oinf", "m.npz")]


def test_safetensors_and_back_keeps_every_native_byte(paths):
    source, target, back, _ = paths
    save_file(NATIVE, source, metadata={"note.utf8": "free text"})
    assert main(["convert", source, target]) == 0
    assert main(["convert", target, back]) == 0
    assert Path(source).read_bytes() == Path(back).read_bytes()


def test_the_library_reads_what_is_exported(paths):
    library = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    source, target, *_ = paths
    arrays = {
        "big": np.arange(3.0),
        "a": np.arange(5, dtype=np.int8),
        "h": np.float16([[1, 2]]),
        "none": np.zeros((0, 2), np.float32),
        "yes": np.array([True, False, True]),
    }
    save_file(arrays, source)
    assert main(["convert", source, target]) == 0
    loaded = library.load_file(target)
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype


def test_numpy_reads_what_is_exported(paths):
    source, _, back, target = paths
    arrays = {"..": np.arange(3.0), "a.b": np.int8([[1], [2]]), "n": np.array(5), "none": np.zeros((0, 2), np.int64)}
    save_file(arrays, source)
    assert main(["convert", source, target]) == 0
    with np.load(target, allow_pickle=False) as loaded:
        assert set(loaded) == set(arrays)
        for name, array in arrays.items():
            np.testing.assert_array_equal(loaded[name], array)
            assert loaded[name].dtype == array.dtype
    assert main(["convert", target, back]) == 0
    with open_oinf(source) as first, open_oinf(back) as second:
        assert all((first[name] == second[name]).all() for name in arrays)


@pytest.mark.parametrize("target", [1, 3])
def test_small_types_become_ones_that_hold_their_values(paths, target, capsys):
    source = paths[0]
    save_file({name: TensorSpec(values, dtype=name) for name, values in PACKED.items()}, source)
    assert main(["convert", source, paths[target]]) == 0
    *changes, written = capsys.readouterr().out.splitlines()
    assert changes == ["cast i4: i4 to i8", "cast t1: t1 to i8", "cast u2: u2 to u8"]
    assert written.startswith(f"written {paths[target]} (")
    assert main(["convert", paths[target], paths[2]]) == 0
    with open_oinf(paths[2]) as file:
        assert {name: file[name].tolist() for name in file} == PACKED


def test_npz_holds_low_precision_floats_as_f32(paths):
    source, _, _, target = paths
    save_file({"b": TensorSpec([1.5, -2], dtype="bf16"), "f": TensorSpec([1.5, -2], dtype="f8")}, source)
    assert main(["convert", source, target]) == 0
    with np.load(target) as loaded:
        assert all(loaded[name].dtype == np.float32 and loaded[name].tolist() == [1.5, -2] for name in "bf")


def test_what_has_no_place_is_reported(paths, capsys):
    source, target, *_ = paths
    model = {
        "sizevars": {"B": 4},
        "metadata": {"bits": Bitset([1]), "mode": "fast"},
        "tensors": {"cache": UninitializedTensor("f16", (2,))},
    }
    write_oinf(model, source)
    assert main(["convert", source, target]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == [
        "dropped B: size variable",
        "dropped cache: a declaration without data",
        "dropped bits: metadata that is not text",
    ]


@pytest.mark.parametrize("target", [1, 3])
def test_quantised_tensors_need_a_decision(paths, target, tmp_path, capsys):
    quant = QuantParams("symmetric", QuantScale.per_channel(0, [0.5, 2]))
    save_file({"q": TensorSpec(np.array([[1, -2], [3, -4]], "i1"), quant=quant)}, paths[0])
    assert main(["convert", paths[0], paths[target]]) == 1
    assert "E_QUANT" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["m.oinf"]
    assert main(["convert", paths[0], paths[target], "--dequantize"]) == 0
    assert main(["convert", paths[target], paths[2]]) == 0
    with open_oinf(paths[2]) as file:
        assert file["q"].tolist() == [[0.5, -1.0], [6.0, -8.0]]


def test_equal_containers_give_equal_exports(paths):
    source, target, back, npz = paths
    save_file(NATIVE, source)
    for path in (target, npz):
        contents = []
        for _ in range(2):
            assert main(["convert", source, path]) == 0
            contents.append(Path(path).read_bytes())
        assert contents[0] == contents[1]
    assert back


def test_invalid_values_are_not_exported(paths, raw, tmp_path):
    (tmp_path / "m.oinf").write_bytes(raw.File(tensors=[raw.Tensor(b"x", 12, (1,), b"\2")]).build())
    assert main(["convert", paths[0], paths[1]]) == 1
    assert not (tmp_path / "m.safetensors").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("bars_at_once")
def test_a_bar_is_shown_on_a_terminal_and_removed(monkeypatch):
    out = Terminal()
    with progress_bar("writing", out):
        expect(150)
        expect(50)
        advance(50)
        advance(150)
    shown = [line for line in out.getvalue().split("\r") if line.strip()]
    assert [line.rsplit(maxsplit=1)[-1] for line in shown] == ["25%", "100%"]
    assert all(line.startswith("writing [") for line in shown)
    assert out.getvalue().endswith(" \r")


def test_work_that_cannot_be_counted_shows_its_seconds(monkeypatch):
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BEFORE", 0)
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_OF_SILENCE", 0.001)
    out = Terminal()
    with progress_bar("compiling", out):
        while "compiling ... 0 s" not in out.getvalue():
            time.sleep(0.001)
    assert out.getvalue().endswith(" \r")


@pytest.mark.parametrize("quiet", [False, True])
def test_what_ends_soon_and_documents_show_no_bar(monkeypatch, quiet):
    monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BETWEEN", 0)
    if quiet:
        monkeypatch.setattr("openinfer_oinf.progress._SECONDS_BEFORE", 0)
    out = Terminal()
    with progress_bar("writing", out, quiet=quiet):
        expect(2)
        advance(1)
    assert out.getvalue() == ""


@pytest.mark.usefixtures("bars_at_once")
def test_a_bar_within_a_bar_is_part_of_it():
    out = Terminal()
    with progress_bar("outer", out):
        expect(4)
        with progress_bar("inner", out):
            advance(1)
        advance(1)
    assert "inner" not in out.getvalue()
    assert out.getvalue().count("outer [") == 2


@pytest.mark.usefixtures("bars_at_once")
def test_functions_called_from_python_write_to_no_terminal(monkeypatch, paths):
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    save_file({"w": np.ones((10, 100))}, paths[0])
    quantize_oinf(paths[0], paths[2], QuantizeOptions())
    np.savez(paths[3], w=np.ones(1000))
    convert_to_oinf(paths[3], paths[2])
    verify_oinf(paths[2], file=False)
    assert out.getvalue() == ""


@pytest.mark.usefixtures("bars_at_once")
def test_the_bar_of_a_model_in_shards_counts_all_of_them(monkeypatch, tmp_path):
    index = tmp_path / "m.oinf.index.json"
    save_shards({f"w.{at}": TensorSpec(np.ones(1000)) for at in range(4)}, index, shard_nbytes=8000)
    monkeypatch.setattr(sys, "stderr", out := Terminal())
    assert main(["canonicalize", str(index), str(tmp_path / "m.oinf")]) == 0
    shares = [line.rsplit(maxsplit=1)[-1] for line in out.getvalue().split("\r") if line.strip()]
    # The payloads are nearly all of the files' bytes.
    assert [int(share.rstrip("%")) // 10 for share in shares] == [2, 4, 7, 9]


@pytest.mark.usefixtures("bars_at_once")
def test_no_bar_without_a_terminal(monkeypatch, paths, capsys):
    save_file({"w": np.zeros(1000)}, paths[0])
    for command in (["convert", paths[0], paths[1]], ["verify", paths[0]], ["hash", paths[0]]):
        assert main(command) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "IN"],
        ["hash", "IN"],
        ["canonicalize", "IN", "OUT"],
        ["quantize", "IN", "OUT", "--include", "w"],
        ["convert", "IN", "OUT.npz"],
        ["convert", "OTHER.npz", "OUT"],
        ["diff", "IN", "IN"],
        ["diff", "IN", "OTHER", "--values"],
        ["extract", "IN", "w", "-o", "OUT.npy"],
        ["extract", "IN", "w", "--dequantize", "-o", "OUT.npy"],
    ],
)
@pytest.mark.usefixtures("bars_at_once")
def test_commands_show_bars_on_a_terminal(monkeypatch, tmp_path, command):
    save_file({"w": np.ones(100_000)}, tmp_path / "IN")
    save_file({"w": np.zeros(100_000)}, tmp_path / "OTHER")
    np.savez(tmp_path / "OTHER.npz", w=np.ones(1000))
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.chdir(tmp_path)
    assert main(command) == (1 if "OTHER" in command else 0)
    assert "100%" in out.getvalue()
    assert out.getvalue().endswith(" \r")
