"""The harness reads .npy files strictly: whatever they hold, it ends with one line and no damage (under sanitizers)."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.synth import Synthesizer
from openinfer.testing.waiting import limit_s

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

TEXT = """
dynamic { x: f32[2, 3]; flag: bool @init(false); s: i64 @init(7); }
volatile { y: f32[2, 3]; b: bool; n: i64; }
block entry { transfer x >> y; transfer flag >> b; transfer s >> n; }
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
SANITIZERS = ["-g", "-fsanitize=undefined,address", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    directory = tmp_path_factory.mktemp("npy") / "out"
    Synthesizer("c").synthesize(Model.from_arrays({}), graph(TEXT)).emit(directory)
    command = ["gcc", "-std=c99", *SANITIZERS, "-o", "model", "main.c", "model.c", "-lm"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "model"


def npy(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), version=version)
    return stream.getvalue()


def with_header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + X.tobytes()


def run(program, directory, *, x=None, flag=None, s=None, options=()):
    arguments = []
    for name, data in (("x", npy(X) if x is None else x), ("flag", flag), ("s", s)):
        if data is not None:
            (directory / f"{name}.npy").write_bytes(data)
            arguments += ["--input", f"{name}={directory / name}.npy"]
    for name in ("y", "b", "n"):
        arguments += ["--output", f"{name}={directory / name}.npy"]
    return subprocess.run(
        [program, *arguments, *options],
        capture_output=True,
        text=True,
        timeout=limit_s(20),
        errors="replace",
        check=False,
    )


def outputs(directory):
    return tuple(np.load(directory / f"{name}.npy", allow_pickle=False) for name in ("y", "b", "n"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_files_of_every_version_are_read_and_written_back(program, tmp_path, version):
    finished = run(
        program, tmp_path, x=npy(X, version), flag=npy(np.array(True), version), s=npy(np.int64(-5), version)
    )

    assert finished.returncode == 0, finished.stderr
    y, b, n = outputs(tmp_path)
    np.testing.assert_array_equal(y, X)
    assert (b.dtype, b.shape, bool(b)) == (np.dtype(bool), (), True)
    assert (n.dtype, int(n)) == (np.dtype("<i8"), -5)


def test_inputs_with_a_default_may_be_left_out(program, tmp_path):
    assert run(program, tmp_path).returncode == 0
    _, b, n = outputs(tmp_path)
    assert (bool(b), int(n)) == (False, 7)


SUM = """
dynamic { h: f32[2]; x: f32[2]; }
volatile { next: f32[2]; half: f32[2]; n: i32[2]; }
persistent { count: i32; }
block entry {
  cache.increment count;
  op add(h, x) >> next;
  op cast(next, to=i32) >> n;
  op add(x, x) >> half;
  return next, half, n;
}
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    directory = tmp_path_factory.mktemp("feed") / "out"
    Synthesizer("c").synthesize(Model.from_arrays({}), graph(SUM)).emit(directory)
    command = ["gcc", "-std=c99", *SANITIZERS, "-o", "model", "main.c", "model.c", "-lm"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "model"


def feed(program, directory, *options, stdout=subprocess.PIPE):
    np.save(directory / "h.npy", np.array([1, 2], np.float32))
    np.save(directory / "x.npy", np.array([[1, 0], [2, 0], [3, 1]], np.float32))
    names = [("--input", "h"), ("--input", "x"), ("--output", "next")]
    arguments = [word for option, name in names for word in (option, f"{name}={directory / name}.npy")]
    command = [program, *arguments, "--steps", "3", *options]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=limit_s(20))


def test_an_output_is_an_input_of_the_next_step(running, tmp_path):
    finished = feed(running, tmp_path, "--feed", "next=h")

    assert finished.returncode == 0, finished.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "next.npy"), [[2, 2], [4, 2], [7, 3]])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--feed", "n=h"), "the output and the input are of different types"),
        (("--feed", "next"), "expected OUTPUT=INPUT"),
        (("--feed", "next=y"), "the model has no such output and input"),
        (("--feed", "next=h", "--feed", "half=h"), "that input takes another output already"),
    ],
)
def test_what_cannot_be_fed_is_refused(running, tmp_path, options, reason):
    finished = feed(running, tmp_path, *options)

    assert finished.returncode == 2
    assert reason in finished.stderr


FIRST = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; n: i64; }
persistent { h: f32[2]; q: i4[3]; on: bool; at: i64; K(t): f32[2] @table @fixed(t=4); }
block entry {
  cache.read h >> old;
  cache.read q >> packed;
  cache.read on >> flag;
  cache.read at >> n;
  op cast(packed, to=f32) >> many;
  op sum_axis(many, axes=[0]) >> total;
  op cast(flag, to=f32) >> one;
  op add(old, x) >> y;
  op mul(y, total) >> y;
  op add(y, one) >> y;
  cache.write x >> K[n];
  cache.increment at;
  return y, n;
}
"""


@pytest.fixture(scope="module")
def remembering(tmp_path_factory):
    directory = tmp_path_factory.mktemp("initial") / "out"
    Synthesizer("c").synthesize(Model.from_arrays({}), graph(FIRST)).emit(directory)
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", *SANITIZERS, "-o", "model", "main.c", "model.c", "-lm"]
    subprocess.run(command, cwd=directory, check=True)
    return directory / "model"


def begun(program, directory, *initial):
    np.save(directory / "x.npy", np.array([[1, 0], [2, 0]], np.float32))
    names = [("--input", "x"), ("--output", "y"), ("--output", "n")]
    arguments = [word for option, name in names for word in (option, f"{name}={directory / name}.npy")]
    arguments += [word for each in initial for word in ("--initial", each)]
    command = [program, *arguments, "--steps", "2"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit_s(20), cwd=directory)


def test_variables_begin_with_the_values_of_their_files(remembering, tmp_path):
    np.save(tmp_path / "h.npy", np.array([3, 4], np.float32))
    np.save(tmp_path / "q.npy", np.array([0xE1, 0x07], np.uint8))
    np.save(tmp_path / "on.npy", np.array(True))
    np.save(tmp_path / "at.npy", np.array(2))
    assert begun(remembering, tmp_path).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.zeros((2, 2)))

    finished = begun(remembering, tmp_path, "h=h.npy", "q=q.npy", "on=on.npy", "at=at.npy")

    assert finished.returncode == 0, finished.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [[25, 25], [31, 25]])
    np.testing.assert_array_equal(np.load(tmp_path / "n.npy"), [2, 3])


@pytest.mark.parametrize(
    ("initial", "code", "reason"),
    [
        (("h=x.npy",), 1, "variable h: its shape is (2, 2), expected (2,)"),
        (("h=none.npy",), 1, "variable h: none.npy cannot be opened"),
        (("on=h.npy",), 1, "variable on: its element type is f32, expected bool"),
        (("h=words",), 1, "variable h: it is not a .npy file"),
        (("hh=h.npy",), 2, "--initial hh=h.npy: the model has none of that name"),
        (("h=h.npy", "h=h.npy"), 2, "it has a file already"),
        (("h=y.npy",), 1, "output y: another input or output has the same file"),
    ],
)
def test_first_values_that_do_not_fit_are_refused(remembering, tmp_path, initial, code, reason):
    np.save(tmp_path / "h.npy", np.array([3, 4], np.float32))
    (tmp_path / "words").write_text("1, 2")
    absolute = tuple(
        each.replace("y.npy", f"{tmp_path}/y.npy") if each.endswith("=y.npy") else each for each in initial
    )

    finished = begun(remembering, tmp_path, *absolute)

    assert finished.returncode == code, finished.stderr
    assert reason in finished.stderr


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
DAMAGED = {
    "no file of this kind": (b"PK\x03\x04" + bytes(60), "it is not a .npy file"),
    "empty": (b"", "it is not a .npy file"),
    "unknown version": (npy(X).replace(b"NUMPY\x01", b"NUMPY\x09"), "unknown version"),
    "unknown minor version": (npy(X).replace(b"NUMPY\x01\x00", b"NUMPY\x01\x98"), "unknown version"),
    "header cut": (npy(X)[:60], "it ends inside its header"),
    "data cut": (npy(X)[:-1], "it ends inside its data"),
    "data too long": (npy(X) + b"\0", "followed by something else"),
    "other type": (npy(X.astype(np.float64)), "its element type is f64, expected f32\n"),
    "several types": (npy(np.zeros(2, "f4,i4")), "its element type is [('f0', expected f32\n"),
    "control characters": (with_header("{'descr': '\x1b[2J\n"), "its element type is '?[2J?, expected f32\n"),
    "other byte order": (npy(X.astype(">f4")), "its element type is big-endian f32, expected f32\n"),
    "other shape": (npy(X.T.copy()), "its shape is (3, 2), expected (2, 3)\n"),
    "flat": (npy(X.reshape(-1)), "its shape is (6,), expected (2, 3)\n"),
    "i64": (npy(X.astype(np.int64)), "its element type is i64, expected f32\n"),
    "bool": (npy(X > 0), "its element type is bool, expected f32\n"),
    "complex numbers": (npy(X.astype(np.complex64)), "its element type is '<c8', expected f32\n"),
    "shape without spaces": (with_header(GOOD.replace("2, 3", "1,3,")), "its shape is (1, 3), expected (2, 3)\n"),
    "scalar": (npy(np.float32(1)), "its shape is (), expected (2, 3)\n"),
    "deeper": (npy(X.reshape(2, 3, 1)), "its shape is (2, 3, 1), expected (2, 3)\n"),
    "very deep": (with_header(GOOD.replace("2, 3", "1, " * 900)), "its shape is (1, 1, 1,"),
    "Fortran order": (npy(np.asfortranarray(X)), "C order"),
    "header too long": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "header is too long"),
    "huge extent": (with_header(GOOD.replace("2, 3", "99999999999999999999999, 3")), "shape"),
    "negative extent": (with_header(GOOD.replace("2, 3", "-2, 3")), "shape"),
    "no dictionary": (with_header("[1, 2]\n"), "not a dictionary"),
    "key twice": (with_header("{'descr': '<f4', 'descr': '<f4', 'shape': (2, 3)}"), "a key twice"),
    "key missing": (with_header("{'descr': '<f4', 'shape': (2, 3)}"), "has a key missing"),
    "unknown key": (with_header("{'descr': '<f4', 'x': 1}"), "unknown key"),
    "endless string": (with_header("{'descr': '<f4"), "element type"),
    "long key": (with_header("{'" + "k" * 100 + "': 1}"), "damaged"),
    "followed by more": (with_header(GOOD.rstrip() + " exit()\n"), "followed by something else"),
    "pickled": (with_header(GOOD.replace("<f4", "|O")), "element type"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_files_are_refused_with_one_line(program, tmp_path, case):
    data, reason = DAMAGED[case]

    finished = run(program, tmp_path, x=data)

    assert finished.returncode == 1
    assert finished.stderr.startswith("model: input x: ")
    assert reason in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_a_file_that_cannot_be_opened_is_named_with_the_reason(program, tmp_path):
    missing, folder = tmp_path / "missing.npy", tmp_path / "none" / "y.npy"

    read = subprocess.run([program, "--input", f"x={missing}"], capture_output=True, text=True, check=False)
    np.save(tmp_path / "x.npy", X)
    command = [program, "--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={folder}"]
    written = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (read.returncode, written.returncode) == (1, 1)
    assert read.stderr == f"model: input x: {missing} cannot be opened: No such file or directory\n"
    assert written.stderr == f"model: output y: {folder} cannot be opened: No such file or directory\n"


def test_a_bool_is_0_or_1(program, tmp_path):
    finished = run(program, tmp_path, flag=npy(np.array(True))[:-1] + b"\x02")

    assert finished.returncode == 1
    assert "input flag: it holds a bool that is neither 0 nor 1" in finished.stderr


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_damage_to_a_header_does_harm(program, tmp_path, data):
    original = npy(X)
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, 127))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)) | st.just(len(damaged)))

    finished = run(program, tmp_path, x=bytes(damaged[:cut]))

    assert finished.returncode in (0, 1)
    assert "Sanitizer" not in finished.stderr
    assert finished.stderr.rstrip("\n").isprintable()
    if finished.returncode == 0:
        np.testing.assert_array_equal(outputs(tmp_path)[0].tobytes(), np.load(tmp_path / "x.npy").tobytes())


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--steps", "0"), "--steps 0: expected a number from 1 to 1000000000"),
        (("--steps", "-1"), "--steps -1: expected a number from 1 to 1000000000"),
        (("--steps", "1x"), "--steps 1x: expected a number from 1 to 1000000000"),
        (("--repeat", "9" * 20), f"--repeat {'9' * 20}: expected a number from 1 to 1000000000"),
        (("--input", "z=x.npy"), "--input z=x.npy: the model has none of that name"),
        (("--output", "q=x.npy"), "--output q=x.npy: the model has none of that name"),
        (("--input", "x"), "--input x: expected NAME=FILE.npy"),
        (("--input", "x=again.npy"), "--input x=again.npy: it has a file already"),
        (("--bogus", "1"), "--bogus 1: there is no such option"),
        (("--bogus",), "--bogus: there is no such option"),
        (("bogus",), "bogus: there is no such option"),
        *(
            ((option, *rest), f"{option}: its value is missing")
            for option in ("--input", "--output", "--feed", "--steps", "--repeat")
            for rest in ((), ("--steps", "2"), ("--help",))
        ),
    ],
)
def test_wrong_arguments_are_named_before_the_usage(program, tmp_path, options, reported):
    finished = run(program, tmp_path, options=options)

    assert finished.returncode == 2
    assert finished.stderr.startswith(f"model: {reported}\nusage: model ")


def test_options_come_in_any_order(running, tmp_path):
    np.save(tmp_path / "h.npy", np.array([1, 2], np.float32))
    np.save(tmp_path / "x.npy", np.array([[1, 0], [2, 0], [3, 1]], np.float32))
    np.save(tmp_path / "count.npy", np.array(1, np.int32))
    pairs = [
        ("--input", "h=h.npy"),
        ("--input", "x=x.npy"),
        ("--output", "next=next.npy"),
        ("--feed", "next=h"),
        ("--initial", "count=count.npy"),
        ("--steps", "3"),
        ("--repeat", "2"),
    ]
    for turn in range(len(pairs)):
        for order in (pairs[turn:] + pairs[:turn], (pairs[turn:] + pairs[:turn])[::-1]):
            (tmp_path / "next.npy").unlink(missing_ok=True)
            command = [running, *(word for pair in order for word in pair)]
            finished = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=limit_s(20), cwd=tmp_path
            )
            assert finished.returncode == 0, finished.stderr
            np.testing.assert_array_equal(np.load(tmp_path / "next.npy"), [[2, 2], [4, 2], [7, 3]])


@pytest.mark.parametrize(
    ("options", "timed"),
    [
        ((), "run once, first use included: --repeat N"),
        (("--repeat", "1"), "least of 1 after a run that does not count"),
        (("--repeat", "30"), "least of 30 after a run that does not count"),
    ],
)
def test_the_time_names_its_clock_and_the_runs_that_count(program, tmp_path, options, timed):
    finished = run(program, tmp_path, options=options)

    assert finished.returncode == 0, finished.stderr
    pattern = rf"microseconds per step: [0-9]+\.[0-9]{{3}} \(wall clock, {re.escape(timed)}\)\n"
    assert re.fullmatch(pattern, finished.stdout), finished.stdout


@pytest.mark.parametrize("option", ["--input", "--output"])
def test_an_output_shares_its_file_with_no_other_port(running, tmp_path, option):
    port = {"--input": "x", "--output": "next"}[option]

    finished = feed(running, tmp_path, "--output", f"half={tmp_path / port}.npy")

    assert finished.returncode == 1
    assert finished.stderr == "model: output half: another input or output has the same file\n"
    assert np.load(tmp_path / "x.npy").shape == (3, 2)
    assert not (tmp_path / "next.npy").exists()


def test_help_lists_types_wherever_the_switch_is(program, tmp_path):
    finished = run(program, tmp_path, options=("--help",))

    assert finished.returncode == 0
    assert finished.stdout.startswith("usage: model ")
    assert "  input  x: f32[2,3]\n  input  flag: bool[] (optional)\n" in finished.stdout


def test_steps_must_be_those_of_the_file(program, tmp_path):
    finished = run(program, tmp_path, x=npy(np.stack([X, X])), options=("--steps", "3"))

    assert finished.returncode == 1
    assert "its shape is (2, 2, 3), expected (3, 2, 3)\n" in finished.stderr


@pytest.mark.parametrize("options", [("--help",), ("--feed", "next=h")])
def test_standard_output_that_takes_no_text_is_an_error(running, tmp_path, options):
    with Path("/dev/full").open("wb") as full:
        finished = feed(running, tmp_path, *options, stdout=full)

    assert finished.returncode == 1
    assert finished.stderr == "model: standard output: No space left on device\n"
