"""Runs in folders: what a program of any language finds there, and what it has to write."""

import json

import numpy as np
import pytest
from plan_interpreter import interpreted

from openinfer.errors import SynthesisError
from openinfer.synth import Bundle
from openinfer.synth.raw_runs import read_run, write_run

PROGRAM = """
dynamic { codes: i4[3]; x: f32[T, 2]; w: f32[T, U]; scale: f32 @init(2.0); }
persistent { before: f32 @init(1.0); }
volatile { y: f32[T, 2]; n: i64; }
block entry {
  op cast(codes, to=f32) >> c;
  op sum_axis(c) >> total;
  op mul(x, scale) >> y;
  op sum_axis(w) >> sum;
  op add(total, sum) >> total;
  cache.read before >> b;
  op add(b, total) >> total;
  cache.write total >> before;
  op cast(total, to=i64) >> n;
  return y, n;
}
"""
CODES = np.array([1, -8, 7], np.int8)


@pytest.fixture(scope="module")
def synthesis():
    return interpreted(PROGRAM, sizes={"T": 2, "U": 1}, limits={"T": 4, "U": 3})


def inputs(rows, columns, steps=None):
    front = () if steps is None else (steps,)
    arrays = {"codes": CODES, "x": np.ones((rows, 2), np.float32), "w": np.ones((rows, columns), np.float32)}
    return {name: np.broadcast_to(array, (*front, *array.shape)) for name, array in arrays.items()}


def run_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_a_folder_has_the_bundle_and_what_a_run_is_given(synthesis, tmp_path):
    begin = {"before": np.array(3, np.float32)}
    write_run(tmp_path, synthesis.plan, synthesis.bundle, inputs(3, 1), repeat=5, initial=begin)

    assert run_of(tmp_path) == {"steps": 1, "repeat": 5, "sizes": [3, 1], "inputs": [0, 1, 2], "states": [0]}
    assert (tmp_path / "plan.txt").read_bytes() == synthesis.bundle.files["plan.txt"]
    assert (tmp_path / "input0.bin").read_bytes() == bytes([0x81, 0x07])
    assert np.fromfile(tmp_path / "input1.bin", np.float32).tolist() == [1.0] * 6
    assert np.fromfile(tmp_path / "state0.bin", np.float32).tolist() == [3.0]
    assert not (tmp_path / "input3.bin").exists()


def test_steps_follow_one_another_in_a_file(synthesis, tmp_path):
    write_run(tmp_path, synthesis.plan, synthesis.bundle, inputs(2, 3, steps=2), steps=2)

    assert run_of(tmp_path) == {"steps": 2, "repeat": 1, "sizes": [2, 3], "inputs": [0, 1, 2], "states": []}
    assert (tmp_path / "input0.bin").read_bytes() == bytes([0x81, 0x07, 0x81, 0x07])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"w": np.ones((3, 1), np.float32)}, r"input 'w' has the shape \[3, 1\], expected \[2, 1\], as T=2, U=1"),
        ({"x": np.ones((5, 2), np.float32)}, r"input 'x' is float32\[5, 2\], expected f32\[4, 2\]"),
        ({"y": CODES}, "the program has no input 'y'"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_written(synthesis, tmp_path, changed, message):
    with pytest.raises(SynthesisError, match=message):
        write_run(tmp_path, synthesis.plan, synthesis.bundle, inputs(2, 1) | changed)

    assert not list(tmp_path.iterdir())


def test_an_input_without_a_default_has_to_be_given(synthesis, tmp_path):
    with pytest.raises(SynthesisError, match="the program needs the input 'codes': give it a value") as caught:
        write_run(tmp_path, synthesis.plan, synthesis.bundle, {})

    assert caught.value.code == "dynamic-unset"


def written(folder, shapes, rows):
    np.ones(2 * rows, np.float32).tofile(folder / "output0.bin")
    np.arange(len(shapes), dtype=np.int64).tofile(folder / "output1.bin")
    document = {"micros": 1.5, "shapes": [[shape, []] for shape in shapes]}
    (folder / "result.json").write_text(json.dumps(document), encoding="utf-8")


def test_results_are_read_in_the_shapes_of_their_steps(synthesis, tmp_path):
    written(tmp_path, [[3, 2]], rows=3)
    alone = read_run(tmp_path, synthesis.plan, None)
    written(tmp_path, [[3, 2], [0, 2]], rows=3)
    stacked = read_run(tmp_path, synthesis.plan, 2)

    assert alone.micros == 1.5
    assert alone.outputs["y"].shape == (3, 2)
    assert [array.shape for array in stacked.outputs["y"]] == [(3, 2), (0, 2)]
    assert stacked.outputs["n"].tolist() == [0, 1]


@pytest.mark.parametrize("shapes", [[], [[2, 2]], [[3, 2], [1, 2]], [[6]], [[2, 3]], [[-3, -2]]])
def test_results_of_other_shapes_than_the_program_says_are_an_error(synthesis, tmp_path, shapes):
    written(tmp_path, shapes, rows=3)

    with pytest.raises(SynthesisError, match="what the synthesised program wrote cannot be read: ValueError"):
        read_run(tmp_path, synthesis.plan, None)


@pytest.mark.parametrize("result", ["[1]", '{"micros": 1e400, "shapes": []}', "[" * 100_000])
def test_results_that_are_no_object_of_numbers_are_an_error(synthesis, tmp_path, result):
    written(tmp_path, [[3, 2]], rows=3)
    (tmp_path / "result.json").write_text(result, encoding="utf-8")

    with pytest.raises(SynthesisError, match="what the synthesised program wrote cannot be read"):
        read_run(tmp_path, synthesis.plan, None)


def test_files_of_a_bundle_may_lie_in_folders(synthesis, tmp_path):
    bundle = Bundle({**synthesis.bundle.files, "src/main.js": b"//"})

    write_run(tmp_path, synthesis.plan, bundle, inputs(2, 3))

    assert (tmp_path / "src" / "main.js").read_bytes() == b"//"


def test_a_file_of_results_that_is_missing_is_an_error(synthesis, tmp_path):
    with pytest.raises(SynthesisError, match=r"cannot be read: FileNotFoundError.*result\.json"):
        read_run(tmp_path, synthesis.plan, None)
