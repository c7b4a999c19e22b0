"""Commands about a program take a model of another format, which they import."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli.program import main
from openinfer.plugins.environment import Environment

onnx: Any = pytest.importorskip("onnx", reason="reading ONNX models needs the package onnx")

has_c = pytest.mark.skipif("c" not in Environment.default().targets, reason="writes C")
has_cpu = pytest.mark.skipif("cpu" not in Environment.default().devices, reason="programs run on the device cpu")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return the path of a model whose names are not those of its program."""
    make = onnx.helper
    x, y = (make.make_tensor_value_info(name, 1, ["batch", 3]) for name in ("x:0", "y:0"))
    weight = onnx.numpy_helper.from_array(np.arange(9, dtype=np.float32).reshape(3, 3) / 8 - 0.5, "w")
    graph = make.make_graph([make.make_node("MatMul", ["x:0", "w"], ["y:0"])], "small", [x], [y], [weight])
    path = tmp_path / "net.v2.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9), str(path))
    return path


@has_cpu
def test_a_model_runs_as_the_program_that_import_writes(small: Path, tmp_path: Path) -> None:
    assert run("import", small, "-o", tmp_path, "--set", "batch=2").exit_code == 0
    inputs = ("--input", "x_0=random", "--json", "--output")

    direct = run("run", small, "--set", "batch=2", *inputs, f"y_0={tmp_path / 'a.npy'}")
    written = run("run", tmp_path / "net.v2.oi", "-m", tmp_path / "net.v2.oinf", *inputs, f"y_0={tmp_path / 'b.npy'}")

    assert (direct.exit_code, direct.stdout) == (0, written.stdout)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()
    assert direct.stderr.splitlines()[0].startswith(f"imported {small}: 1 node in 1 statement; ")
    assert "`openinfer import` writes program and weights" in direct.stderr


@has_cpu
def test_inputs_and_outputs_have_their_names_in_the_model_too(small: Path) -> None:
    for name in ("x:0", "x_0"):
        assert run("run", small, "--input", f"{name}=-1", "--set", "batch=2", "--output", "y:0").exit_code == 0


@has_cpu
@pytest.mark.parametrize("command", ["run", "bench", "trace", "plan", "check", "graph"])
def test_a_size_of_the_model_is_set(command: str, small: Path) -> None:
    inputs = () if command in ("plan", "check", "graph") else ("--input", "x:0=random")
    extra = {"bench": ("--repeat", "1"), "plan": ("--target", "c")}.get(command, ())
    if command == "plan" and "c" not in Environment.default().targets:
        pytest.skip("target c is not installed")

    assert run(command, small, "--set", "batch=2", *inputs, *extra).exit_code == 0
    unknown = run(command, small, "--set", "bach=2", *inputs, *extra)

    assert unknown.exit_code == 1
    assert "it has: x:0, batch" in unknown.stderr


def test_a_picture_of_a_model_shows_its_shapes(small: Path, tmp_path: Path) -> None:
    assert run("import", small, "-o", tmp_path).exit_code == 0
    program = tmp_path / "net.v2.oi"

    assert run("graph", small).stdout == run("graph", program).stdout
    assert run("graph", small, "--json").stdout == run("graph", program, "--json").stdout
    drawn = run("graph", small, "--dot", "--set", "batch=2").stdout
    assert "f32[2, 3]" in drawn
    refused = run("graph", program, "--set", "batch=2")
    assert (refused.exit_code, "change an import" in refused.stderr) == (2, True)


SUFFIXES = sorted(suffix for spec in Environment.default().importers.values() for suffix in spec.suffixes)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("command", ["run", "synth"])
def test_files_of_every_importer_are_imported(command: str, suffix: str, tmp_path: Path) -> None:
    extra = ("-o", tmp_path / "bundle") if command == "synth" else ()
    refused = run(command, tmp_path / f"none{suffix}", *extra)

    assert (refused.exit_code, "error[import-file]" in refused.stderr) == (1, True), refused.stderr


@has_c
def test_the_bundle_has_the_program_and_the_weights(small: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    made = run("synth", small, "-o", bundle, "--prefix", "net", "--set", "batch=1")
    assert made.exit_code == 0, made.output
    assert f"{bundle / 'net.oi'} and {bundle / 'net.oinf'}" in made.stderr
    assert run("import", small, "-o", tmp_path, "--set", "batch=1").exit_code == 0

    assert (bundle / "net.oi").read_bytes() == (tmp_path / "net.v2.oi").read_bytes()
    assert (bundle / "net.oinf").read_bytes() == (tmp_path / "net.v2.oinf").read_bytes()
    program = tmp_path / "net.oi"
    shutil.copy(bundle / "net.oi", program)
    other = tmp_path / "other"
    again = run("synth", program, "-m", bundle / "net.oinf", "-o", other, "--prefix", "net")
    assert again.exit_code == 0, again.output
    for source in ("net.c", "net.h"):
        assert (other / source).read_bytes() == (bundle / source).read_bytes()
    assert run("synth", small, "-o", bundle, "--set", "batch=1").exit_code == 0


@has_c
def test_a_program_that_was_edited_in_the_bundle_is_not_replaced(small: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    arguments = ("synth", small, "-o", bundle, "--set", "batch=1")
    assert run(*arguments).exit_code == 0
    with (bundle / "model.oi").open("a") as program:
        program.write("// mine\n")

    refused = run(*arguments)

    assert refused.exit_code == 1
    assert "'model.oi', which was changed since it was written" in refused.stderr


REFUSALS = {
    "a model that has its own weights": (["run", "SMALL", "-m", "x.oinf"], 2, "leave --model out"),
    "a missing program without a model": (["run", "none.oi"], 1, "No such file or directory: none.oi"),
    "a program without a model": (["run", "q.oi"], 2, "q.oi takes variable `w` and size `N` from a model"),
    "a program that is quantised without a model": (
        ["quantize", "q.oi", "--calibrate", "SAMPLES"],
        2,
        "give its file with --model (-m)",
    ),
    "a setting of an import": (["run", "p.oi", "-m", "x.oinf", "--set", "a=1"], 2, "p.oi is a program"),
    "a setting of an import that is checked": (["check", "p.oi", "--no-roll"], 2, "p.oi is a program"),
    "several files": (["check", "SMALL", "p.oi"], 2, "check it alone"),
    "a missing file": (["run", "none.onnx"], 1, "cannot read 'none.onnx'"),
    "weights alone": (["run", "w.safetensors"], 1, "`oinf convert` makes a container"),
    "another framework": (["synth", "net.keras", "-o", "build"], 1, "convert it with TensorFlow"),
}


@pytest.mark.parametrize(("arguments", "code", "words"), REFUSALS.values(), ids=REFUSALS.keys())
def test_an_error_says_what_to_do(
    arguments: list[str], code: int, words: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small.parent)
    Path("p.oi").write_text("dynamic { x: f32[3]; }\nblock entry { return x; }\n")
    Path("q.oi").write_text("dynamic { x: f32[N]; }\nconstant { w: f32[2]; }\nblock entry { return x; }\n")
    Path("w.safetensors").write_bytes(b"{}")
    Path("net.keras").write_bytes(b"\x89HDF\r\n\x1a\n")
    np.savez("samples.npz", x=np.zeros((1, 3), np.float32))
    names = {"SMALL": str(small), "SAMPLES": "samples.npz"}

    refused = run(*(names.get(argument, argument) for argument in arguments))

    assert (refused.exit_code, words in " ".join(refused.stderr.split())) == (code, True), refused.stderr


@has_cpu
def test_json_stays_one_document(small: Path) -> None:
    done = run("run", small, "--input", "x:0=zeros", "--set", "batch=1", "--json")
    assert json.loads(done.stdout)["outputs"].keys() == {"y_0"}
