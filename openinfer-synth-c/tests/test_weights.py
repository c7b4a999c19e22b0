"""Where weights are: in the source, in a file, in an object; and the checksum that init compares."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import SynthesisError
from openinfer.synth.c_host.blob import Blob
from openinfer_synth_c.target import CTarget

TEXT = """
dynamic { x: f32[3]; }
volatile { w: f32[3]; b: i8[3]; y: f32[3]; }
block entry { op cast(b, to=f32) >> c with { fuse = false }; op mul(x, w) >> t; op add(t, c) >> y; return y; }
"""
MODEL = oi.Model.from_arrays({"w": np.array([2, 4, 8], np.float32), "b": np.array([1, 0, -1], np.int8)})
SANITIZED = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined,address")

needs_compilers = pytest.mark.skipif(
    not all(map(shutil.which, ("gcc", "make"))), reason="gcc and make are not both installed"
)


def synthesis(weights=None, text=TEXT, **options):
    return oi.Synthesizer("c", weights=weights, **options).synthesize(MODEL, text)


@pytest.mark.parametrize(
    ("weights", "files"),
    [
        (None, set()),
        ("embedded", set()),
        ("file", {"weights.bin"}),
        ("object", {"weights.bin", "weights.S"}),
    ],
)
def test_a_bundle_has_the_files_of_its_weights(weights, files):
    assert {"weights.bin", "weights.S"} & set(synthesis(weights).bundle.files) == files


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("weights", ["embedded", "file", "object"])
def test_results_are_the_same_wherever_weights_are(weights):
    made = synthesis(weights)
    x = np.array([1, 2, 3], np.float32)

    found = CTarget().build_and_run(made.plan, made.bundle, {"x": x}, flags=SANITIZED)

    np.testing.assert_array_equal(found.outputs["y"], [3, 8, 23])


@pytest.mark.parametrize(("lanes", "is_aligned"), [(16, True), (8, False), (4, False)])
def test_weights_of_the_widest_registers_begin_at_lines_of_the_caches(lanes, is_aligned):
    model = oi.Model.from_arrays({"w": np.ones(64, np.float32), "b": np.ones(8, np.float32)})
    text = "dynamic { x: f32[8, 8]; } volatile { w: f32[64]; b: f32[8]; } block entry { "
    text += "assign v: f32[8, 8]; op reshape(w, shape=[8, 8]) >> v; op mul(x, v) >> t; op add(t, b) >> y; return y; }"
    arch = {
        "version": 2,
        "device": {"type": "cpu", "api": "c", "name": "wide"},
        "target": {"lanes": lanes, "dialect": "vector", "flags": []},
    }
    made = oi.Synthesizer("c", weights="embedded", arch=oi.DeviceArch.load(arch)).synthesize(model, text)

    source = made.bundle.files["model.c"].decode()

    assert ("MODEL_ALIGNED static const float w_v[64]" in source) is is_aligned
    assert "\nstatic const float w_b[8]" in source


def test_another_place_is_refused():
    with pytest.raises(SynthesisError, match="the weights are 'flash', expected one of auto, embedded, file, object"):
        synthesis("flash")


def test_a_program_without_weights_has_no_file_of_them():
    text = "dynamic { x: f32[3]; } volatile { y: f32[3]; } block entry { op neg(x) >> y; return y; }"

    assert "weights.bin" not in synthesis("file", text).bundle.files


def checksum(data):
    """The sums one by one, in Python's integers."""
    low = high = 0
    for at in range(0, len(data), 4):
        low += int.from_bytes(data[at : at + 4], "little")
        high += low
    low, high = low % 2**64, high % 2**64
    return low ^ (high << 32 | high >> 32) % 2**64


@pytest.mark.parametrize("count", [0, 1, 4, 7, 1000, 4099])
def test_the_checksum_is_that_of_words_and_of_sums_on_the_way(count):
    data = np.random.default_rng(count).integers(0, 256, count, np.uint8).tobytes()

    assert Blob(data, ()).checksum == checksum(data)


@needs_compilers
@pytest.mark.parametrize("weights", ["file", "object"])
def test_damaged_weights_are_a_status_unless_the_check_is_off(weights, tmp_path):
    directory = synthesis(weights, prefix="digits").emit(tmp_path / "out")
    data = bytearray((directory / "weights.bin").read_bytes())
    data[5] ^= 1
    (directory / "weights.bin").write_bytes(data)
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    command = [directory / "digits", "--input", f"x={tmp_path / 'x.npy'}"]

    subprocess.run(["make"], cwd=directory, check=True, capture_output=True)
    checked = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    flags = "CFLAGS=-O1 -DDIGITS_UNCHECKED_WEIGHTS"
    subprocess.run(["make", "-B", flags], cwd=directory, check=True, capture_output=True)
    unchecked = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stderr) == (1, "digits: model: the weights are not those of the model\n")
    assert unchecked.returncode == 0, unchecked.stderr


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_cmake_links_the_object_of_weights(tmp_path):
    directory = synthesis("object", project="cmake").emit(tmp_path / "out")
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))

    for command in (["cmake", "-S", directory, "-B", tmp_path / "build"], ["cmake", "--build", tmp_path / "build"]):
        subprocess.run(command, check=True, capture_output=True)
    program = [
        tmp_path / "build" / "model",
        "--input",
        f"x={tmp_path / 'x.npy'}",
        "--output",
        f"y={tmp_path / 'y.npy'}",
    ]
    subprocess.run(program, check=True, capture_output=True)

    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [3, 4, 7])


def test_device_c_shares_a_library_among_models_that_differ_in_data_only():
    from openinfer.synth.c_host.blob import blob_of
    from openinfer_synth_c.project import program_source

    plan = synthesis().plan
    other = oi.Model.from_arrays({"w": np.array([1, 1, 1], np.float32), "b": np.array([1, 0, -1], np.int8)})
    another = oi.Synthesizer("c").synthesize(other, TEXT).plan

    sources = [program_source(each, blob_of(each, largest_embedded=0)).files for each in (plan, another)]

    assert sources[0] == sources[1]
