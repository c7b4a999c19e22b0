"""Bundles of target c: which files, what they say, clean under the compilers at hand."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.dtypes import F16
from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.model import Model
from openinfer.synth import Synthesizer
from openinfer_synth_c.project import bundle_of
from openinfer_synth_c.target import CTarget

FILES = [
    *(
        "Makefile",
        "PROVENANCE.json",
        "README.md",
        "main.c",
        "model.c",
        "model.h",
        "npy.h",
        "openinfer_platform.h",
        "plan.json",
    ),
    "sbom.spdx.json",
]

PROGRAM = """
dynamic { image: f32[1, 2, 6, 6]; go: bool; }
volatile {
  w(l): f32[2, 2, 3, 3] @pattern("w.{l}");
  head: f32[72, 3];
  logits: f32[1, 3];
  odds: f32[1, 3];
  best: i64[1];
}
block entry {
  assign flat: f32[1, 72];
  loop layers (l in 0..2) { op conv2d(image, w[l], padding=1) >> image; op relu(image) >> image; }
  op reshape(image, shape=[1, -1]) >> flat;
  branch go classify refuse;
  return logits, odds, best;
}
block classify {
  op matmul(flat, head) >> logits;
  op softmax(logits) >> odds;
  op argmax_axis(logits, axis=1) >> best;
}
block refuse { op fill(best, value=-1) >> best; }
"""


def synthesis(text=PROGRAM, arrays=None):
    generator = np.random.default_rng(1)
    defaults = {
        "w.0": generator.normal(size=(2, 2, 3, 3)).astype(np.float32),
        "w.1": generator.normal(size=(2, 2, 3, 3)).astype(np.float32),
        "head": generator.normal(size=(72, 3)).astype(np.float32),
    }
    model = Model.from_arrays(defaults if arrays is None else arrays)
    return Synthesizer("c").synthesize(model, graph(text))


@pytest.mark.rule("api.bundles.1", "json.devices.4")
def test_the_files_are_always_the_same():
    assert list(synthesis().bundle.files) == FILES


def test_the_source_has_no_path_and_every_byte_is_ascii():
    for data in synthesis().bundle.files.values():
        assert data.isascii()
        assert str(Path.cwd()).encode() not in data


def test_the_readme_names_inputs_and_outputs_with_their_types():
    readme = synthesis().bundle.files["README.md"].decode()

    assert "./model --input image=image.npy --input go=go.npy --output logits=logits.npy --output odds" in readme
    assert "input  image: f32[1,2,6,6]\ninput  go: bool[]\noutput logits: f32[1,3]\n" in readme


def test_the_readme_gives_no_name_to_the_shell_that_it_may_misread():
    text = "dynamic { x: f32; } volatile { y: f32; } block entry { transfer x >> y; return y; }"
    plan = synthesis(text, {}).plan
    renamed = replace(plan, inputs=(replace(plan.inputs[0], name="$größe"),))
    readme = bundle_of(renamed).files["README.md"].decode()

    assert "./model --input NAME=FILE.npy --output NAME=FILE.npy\n" in readme
    assert "input  $gr\\xf6\\xdfe: f32[]\n" in readme


def test_comments_carry_the_lines_of_the_program():
    source = synthesis().bundle.files["model.c"].decode()

    assert "/* line 12: op conv2d(image, w[l], padding=1) >> image */" in source
    assert "/* block refuse */" in source


@pytest.mark.rule("api.bundles.2")
def test_the_heap_is_not_used():
    source = synthesis().bundle.files["model.c"].decode() + synthesis().bundle.files["main.c"].decode()

    assert not any(f"{name}(" in source for name in ("malloc", "calloc", "realloc", "free", "alloca"))


def test_the_plan_is_in_the_bundle():
    document = json.loads(synthesis().bundle.files["plan.json"])

    assert document["arena"]["nbytes"] == synthesis().plan.arena_nbytes
    assert [block["name"] for block in document["blocks"]] == ["entry", "refuse", "classify"]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_make_builds_without_a_warning(compiler, tmp_path):
    if shutil.which(compiler) is None or shutil.which("make") is None:
        pytest.skip(f"{compiler} and make are not both installed")
    directory = synthesis().emit(tmp_path / "out")

    subprocess.run(["make", f"CC={compiler}"], cwd=directory, check=True, capture_output=True)

    listed = subprocess.run([directory / "model", "--help"], check=True, capture_output=True, text=True).stdout
    assert "  input  image: f32[1,2,6,6]\n  input  go: bool[]\n  output logits: f32[1,3]\n" in listed
    synthesis().emit(directory)


@pytest.mark.parametrize("standard", ["c99", "c11", "c17"])
def test_later_standards_take_the_source_too(standard, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    directory = synthesis().emit(tmp_path / "out")

    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow=local", "-Werror", "-O3"]
    command = ["gcc", f"-std={standard}", *flags, "-c", "model.c"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True)


def test_an_element_type_that_c_does_not_hold_is_named():
    text = "dynamic { x: f16[2]; } volatile { y: f16[2]; } block entry { transfer x >> y; }"
    plan = synthesis(text, {}).plan
    foreign = TensorType(replace(F16, name="f6", bits=6), (2,))
    values = tuple(replace(value, type=foreign) for value in plan.values)

    with pytest.raises(SynthesisError, match=r"x is f6\[2\]: generated C has no element type f6") as caught:
        CTarget().emit(replace(plan, values=values))

    assert caught.value.code == "dtype-unsupported"


LARGE = """
dynamic { x: f32[1, 300]; at: i64; }
volatile { head: f32[300, 300]; w(l): f32[300, 300] @pattern("w.{l}"); y: f32[1, 300]; z: f32[1, 300]; }
block entry {
  op matmul(x, head) >> y;
  loop layers (l in 0..2) { op matmul(y, w[l]) >> y; }
  op matmul(x, w[at]) >> z;
}
"""


def large():
    generator = np.random.default_rng(2)
    names = ("head", "w.0", "w.1", "w.3")
    arrays = {name: generator.normal(scale=0.05, size=(300, 300)).astype(np.float32) for name in names}
    return arrays, synthesis(LARGE, arrays)


def test_weights_of_more_than_a_mebibyte_are_a_file_of_their_own():
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    arrays, found = large()
    x = np.random.default_rng(3).normal(size=(1, 300)).astype(np.float32)
    flags = [
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        "-O1",
        "-fsanitize=undefined,address",
    ]

    result = CTarget().build_and_run(found.plan, found.bundle, {"x": x, "at": np.array(3)}, flags=flags)

    assert sorted(found.bundle.files) == sorted([*FILES, "weights.bin"])
    assert len(found.bundle.files["model.c"]) < 20_000
    assert len(found.bundle.files["weights.bin"]) >= 4 * 360_000
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    np.testing.assert_allclose(result.outputs["y"], x @ wide["head"] @ wide["w.0"] @ wide["w.1"], atol=1e-5)
    np.testing.assert_allclose(result.outputs["z"], x @ wide["w.3"], atol=1e-5)
    with pytest.raises(SynthesisError, match="an index is out of range"):
        found.run({"x": x, "at": np.array(2)})


@pytest.mark.parametrize("folder", ["", "elsewhere"])
def test_weights_are_found_next_to_the_program_or_in_the_working_directory(tmp_path, folder):
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("a C compiler and make are not both installed")
    directory = large()[1].emit(tmp_path / "out")
    subprocess.run(["make"], cwd=directory, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = (directory / "model").rename(tmp_path / folder / "model") if folder else directory / "model"

    from_bundle, from_elsewhere = (
        subprocess.run([program], cwd=cwd, capture_output=True, text=True, check=False).stderr
        for cwd in (directory, elsewhere)
    )

    missing = "model: weights: their file cannot be opened\n"
    assert from_bundle != missing
    assert (from_elsewhere == missing) == bool(folder)


def test_a_file_of_weights_of_another_size_is_refused(tmp_path):
    if shutil.which("make") is None or shutil.which("cc") is None:
        pytest.skip("a C compiler and make are not both installed")
    directory = large()[1].emit(tmp_path / "out")
    subprocess.run(["make"], cwd=directory, check=True, capture_output=True)
    (tmp_path / "short.bin").write_bytes((directory / "weights.bin").read_bytes()[:-1])

    command = [directory / "model", "--weights", tmp_path / "short.bin"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)

    assert finished.returncode == 1
    assert finished.stderr == "model: weights: their file has another size than the one of this model\n"
