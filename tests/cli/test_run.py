"""`openinfer run`: inputs, outputs, statistics, traces, and errors with their exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from openinfer.cli import main
from openinfer.simulate import logs
from openinfer.testing.waiting import limit_s
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """
dynamic { x: f32[B, 2]; k: i32 @init(2); }
volatile { w: f32[2]; y: f32[B, 2]; }
persistent { n: i32; }
block entry {
  op mul(x, w) >> y;
  cache.increment n;
  return y;
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(2), "w": np.array([1, 10], np.float32)}, "m.oinf")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "g.oi", "--model", "m.oinf", *arguments])


def test_results_are_printed_with_type_and_statistics(files: Path) -> None:
    np.save("x.npy", np.array([[1, 2], [3, 4]], np.float32))
    result = run("--input", "x=x.npy")
    assert result.exit_code == 0
    assert result.stdout == "y: f32[2,2] = {1.00, 20.00, 3.00, 40.00}  min 1  max 40  mean 16\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("zeros", [[0.0, 0.0], [0.0, 0.0]]),
        ("2", [[2.0, 20.0], [2.0, 20.0]]),
        ("[[1, 2], [3, 4.5]]", [[1.0, 20.0], [3.0, 45.0]]),
        ("[[inf, 2], [nan, -inf]]", [["inf", 20.0], ["nan", "-inf"]]),
        ("-inf", [["-inf", "-inf"], ["-inf", "-inf"]]),
    ],
)
def test_an_input_may_be_written_out(files: Path, source: str, expected: list[list[float]]) -> None:
    document = json.loads(run("--input", f"x={source}", "--json").stdout)
    assert document["outputs"]["y"]["values"] == expected
    assert document["outputs"]["y"]["shape"] == [2, 2]


def test_random_inputs_depend_on_seed_and_step_only(files: Path) -> None:
    first, again, other, later = (
        run("--input", "x=random", "--seed", seed, "--steps", steps).stdout
        for seed, steps in [("1", "1"), ("1", "1"), ("2", "1"), ("1", "2")]
    )
    assert first == again
    assert len({first, other, later}) == 3


def test_outputs_may_be_chosen_and_saved(files: Path) -> None:
    result = run("--input", "x=1", "--steps", "3", "--output", "n", "--output", "y=y.npy")
    assert result.stdout.splitlines()[:2] == ["after 3 steps:", "n: i32 = {3}"]
    assert np.load("y.npy").tolist() == [[1.0, 10.0], [1.0, 10.0]]


def test_not_a_number_is_legal_json(files: Path) -> None:
    result = run("--input", "x=[[NaN, 1], [-Infinity, 2]]", "--json")
    output = json.loads(result.stdout, parse_constant=pytest.fail)["outputs"]["y"]
    assert output["values"] == [["nan", 10.0], ["-inf", 20.0]]
    assert (output["nan"], output["minimum"]) == (1, "-inf")


def test_a_trace_is_written_in_the_json_form(files: Path) -> None:
    assert run("--input", "x=1", "--trace", "t.json", "--steps", "2").exit_code == 0
    events = json.loads(Path("t.json").read_text())
    assert [event["kind"] for event in events] == 2 * ["OpExecute", "CacheIncrement", "Return"]
    assert events[0]["params"] == ["x", "w"]


def test_timing_names_every_operator(files: Path) -> None:
    printed = run("--input", "x=1", "--timing", "--steps", "2").stdout
    assert "mul " in printed
    assert printed.endswith("`openinfer bench` leaves it out\n")
    document = json.loads(run("--input", "x=1", "--timing", "--steps", "2", "--json").stdout)
    (time,) = document["timing"]
    assert (time["op"], time["count"], time["share"]) == ("mul", 2, 1.0)


def test_verbose_shows_nodes_in_addition_to_the_results(files: Path) -> None:
    result = run("--input", "x=1", "--verbose", "--json")
    assert json.loads(result.stdout)["steps"] == 1
    assert result.stderr.splitlines() == [
        "[entry] g.oi:6 -- op mul(x,w) >> y -- x: f32[2,2], w: f32[2] -> y: f32[2,2]",
        "[entry] g.oi:7 -- cache.increment n",
        "[entry] g.oi:8 -- return y",
    ]


def test_sizes_may_be_overridden(files: Path) -> None:
    assert json.loads(run("--input", "x=1", "--size", "B=3", "--json").stdout)["outputs"]["y"]["shape"] == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 1, "--input NAME=FILE.npy"),
        (("--input", "x=none.npy"), 1, "none.npy"),
        (("--input", "x=m.oinf.npy"), 1, "not an array file"),
        (("--input", "x=[1, 2]"), 1, "insert-mismatch"),
        (("--input", "x=pony"), 1, "'pony'"),
        (("--input", "y=1"), 1, "not-dynamic"),
        (("--input", "z=1"), 1, "unknown-variable"),
        (("--input", "x"), 2, "NAME=FILE.npy"),
        (("--input", "x=1", "--output", "z"), 1, "unknown-variable"),
        (("--input", "x=1", "--output", "y=no/where.npy"), 1, "the directory to write to does not exist"),
        (("--input", "x=1", "--trace", "no/where.json"), 1, "the directory to write to does not exist"),
        (("--input", "x=1", "--device", "cpo"), 1, "did you mean `cpu`"),
        (("--input", "x=1", "--size", "C=3"), 1, "unknown-sizevar"),
        (("--input", "x=1", "--size", "B=-3"), 2, "B=8"),
        (("--input", "x=1", "--limit", "C=3"), 1, "nor is C a size of this program"),
        pytest.param(("--input", "x=1", "--size", "B=" + "9" * 5000), 2, "5000 digits", id="large size"),
        (("--input", "x=random", "--seed", "-1"), 2, "-1"),
        (("--input", "x=archive.npy"), 1, "extract the array"),
        (("--input", "x=random", "--size", "B=1000000000000000"), 1, "Unable to allocate"),
        (("--input", "x=vast.npy"), 1, "vast.npy"),
        (("--input", "x=endless.npy"), 1, "endless.npy"),
        pytest.param(("--input", "x=1", "--device", "cpu:" + "1" * 5000), 1, "5000 digits", id="large device"),
        (("--steps", "-1"), 2, "--steps"),
        (("--input", "x=1", "--input", "x=2"), 2, "given twice"),
        (("--input", "x=wide.npy"), 1, "'wide.npy' holds float64 of shape [2, 2], `x` is declared f32[2,2]"),
        (("--input", "x=wide.npy"), 1, "wide.npy wide.float32.npy float32"),
        (("--input", "x=long.npy"), 1, "'long.npy' holds float32 of shape [3, 3]"),
        (("--input", "x=archive.npz"), 1, "extract the array"),
        (("--input", "x=1", "--state", "m.oinf"), 1, "holds no saved state"),
        (("--input", "x=1", "--state", "no/where.oinf"), 1, "no/where.oinf"),
    ],
)
def test_a_mistake_is_reported_in_one_message(files: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    Path("m.oinf.npy").write_bytes(Path("m.oinf").read_bytes())
    for archive in ("archive.npy", "archive.npz"):
        with Path(archive).open("wb") as stream:
            np.savez(stream, x=np.zeros(2, np.float32))
    np.save("wide.npy", np.zeros((2, 2)))
    np.save("long.npy", np.zeros((3, 3), np.float32))
    for name, extents in (("vast", (10**14,)), ("endless", (10**30,))):
        with Path(f"{name}.npy").open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": extents})
    result = run(*arguments)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output


def test_no_steps_say_so(files: Path) -> None:
    assert run("--steps", "0").stdout == "no step was run\n"
    assert run("--steps", "0", "--output", "n").stdout == "no step was run\nn: i32 = {0}\n"


def test_persistent_memory_is_carried_from_run_to_run_in_a_file(files: Path) -> None:
    printed = [run("--input", "x=1", "--state", "s.oinf", "--output", "n").stdout for _ in range(3)]
    assert printed == ["n: i32 = {1}\n", "n: i32 = {2}\n", "n: i32 = {3}\n"]
    failed = run("--state", "s.oinf")
    assert failed.exit_code == 1
    assert run("--input", "x=1", "--state", "s.oinf", "--output", "n").stdout == "n: i32 = {4}\n"


def test_the_command_that_is_suggested_converts_the_file(files: Path) -> None:
    directory = Path("it's $HOME")
    directory.mkdir()
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.save(directory / "x.npy", numbers)
    hint = run("--input", f"x={directory}/x.npy").output.partition("and give x=")[2]
    copy, _, command = hint.rstrip("\n").partition(": ")
    assert copy == f"{directory}/x.float32.npy"
    subprocess.run(["/bin/sh", "-c", command], check=True, timeout=limit_s(60))
    assert run("--input", f"x={copy}").exit_code == 0
    np.testing.assert_array_equal(np.load(directory / "x.npy"), numbers)
    assert f"x={directory}/x.float32.2.npy" in run("--input", f"x={directory}/x.npy").output


def test_a_pickle_is_not_opened(files: Path) -> None:
    np.save("x.npy", np.array([{}], dtype=object), allow_pickle=True)
    result = run("--input", "x=x.npy")
    assert (result.exit_code, "not a readable array file" in result.output) == (1, True)


@pytest.mark.parametrize(
    "header",
    [b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", b"\xff\xfe", b"(((", b"{'descr': 3}", b"'"],
)
def test_a_broken_header_is_reported(files: Path, header: bytes) -> None:
    for version in (1, 2):
        size = len(header).to_bytes(2 if version == 1 else 4, "little")
        Path("x.npy").write_bytes(b"\x93NUMPY" + bytes([version, 0]) + size + header)

        result = run("--input", "x=x.npy")

        assert (result.exit_code, "not a readable array file" in result.output) == (1, True), result.output


def test_a_step_that_fails_shows_its_line(files: Path) -> None:
    result = run("--input", "k=1")
    assert "--> g.oi:6:3" in result.output
    assert "6 |   op mul(x, w) >> y;" in result.output


def test_the_model_has_to_be_a_model(files: Path) -> None:
    result = CliRunner().invoke(main, ["run", "g.oi", "--model", "g.oi"])
    assert result.exit_code == 1
    assert "not a model file" in result.output


# Shows progress from the first step on, not after seconds.
AT_ONCE = """
import openinfer_oinf.progress as progress, openinfer.cli
progress._SECONDS_BEFORE = progress._SECONDS_BETWEEN = 0
openinfer.cli.main()
"""


def test_a_progress_bar_is_shown_on_a_terminal_only(files: Path) -> None:
    quiet = run("--input", "x=1", "--steps", "2")
    assert quiet.stderr == ""
    leader, follower = pty.openpty()
    command = [sys.executable, "-c", AT_ONCE, "run", "g.oi", "--model", "m.oinf", "--input", "x=1", "--steps", "2"]
    subprocess.run(command, stderr=follower, stdout=subprocess.DEVNULL, check=True, timeout=limit_s(60))
    os.close(follower)
    assert b"running [###############...............]  50%" in os.read(leader, 4096)
    os.close(leader)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "--json"),
        ("run", "--batch", "inputs.npz"),
        ("bench", "--repeat", "1", "--warm-up", "0"),
        ("compare", "--device", "cpu", "--device", "cpu"),
        ("trace", "--script", "commands"),
    ],
    ids=" ".join,
)
def test_warnings_about_the_program_are_reported_once(
    files: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "odd.oi").write_text("dynamic { x: f32; } volatile { y: f32; } block entry { op exp(x) >> y; }")
    (files / "commands").write_text("continue\n")
    np.savez(files / "inputs.npz", x=np.zeros(2, np.float32))
    command, *others = arguments
    given = [command, "odd.oi", "--model", "m.oinf", *others]
    if "--batch" not in given:
        given += ["--input", "x=1"]

    result = CliRunner().invoke(main, given)
    monkeypatch.setattr(logs, "_settings", replace(logs._settings, kinds=frozenset({logs.LogKind.WARNING})))
    logged = CliRunner().invoke(main, given)

    assert result.exit_code == logged.exit_code == 0, result.output
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["warning[no-return]"]
    assert all("[WARNING] -- " in line for line in logged.stderr.splitlines())


@pytest.mark.parametrize("arguments", [("run",), ("synth", "--target", "c", "-o", "bundle")], ids=["run", "synth"])
def test_warnings_cannot_steer_a_terminal(files: Path, arguments: tuple[str, ...]) -> None:
    block = 'block entry with { placement = "\\x1b[31mmoon" } { op exp(x) >> y; return y; }'
    (files / "odd.oi").write_text(f"constant {{ x: f32 @init(1.0); }} volatile {{ y: f32; }} {block}")
    command, *others = arguments

    result = CliRunner().invoke(main, [command, "odd.oi", "--model", "m.oinf", *others], color=True)

    assert result.exit_code == 0, result.output
    (line,) = result.stderr.splitlines()
    assert "unknown device `\\x1b[31mmoon` in `placement`" in line
