"""`openinfer run --batch`: what is printed and saved, which options go together, how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from batched_programs import ENDLESS, INPUTS, PROGRAM, A
from click.testing import CliRunner, Result
from processes import until_ended

from openinfer.cli import main
from openinfer.testing.waiting import interruptible, limit_s
from openinfer_oinf import SizeVar, write_oinf


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(2), "a": A}, "m.oinf")
    np.savez("x.npz", x=np.array(INPUTS[:3]))
    Path("in").mkdir()
    for index in range(3):
        np.savez(f"in/i{index}.npz", x=INPUTS[index])
    np.savez("in/i1.npz", x=np.zeros(2))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "g.oi", "--model", "m.oinf", *arguments])


def test_the_command_prints_outputs_of_every_row(files: Path) -> None:
    result = run("--batch", "x.npz", "--output", "y", "--output", "n")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "row 0: y: f32[2] = {2.00, 20.00}  min 2  max 20  mean 11",
        "row 0: n: i32 = {1}",
        "row 1: y: f32[2] = {4.00, 18.00}  min 4  max 18  mean 11",
        "row 1: n: i32 = {1}",
        "row 2: y: f32[2] = {6.00, 16.00}  min 6  max 16  mean 11",
        "row 2: n: i32 = {1}",
        "3 inputs: 3 done, 0 failed",
    ]


@pytest.mark.parametrize(("source", "workers"), [("in", "1"), ("in/*.npz", "2")])
def test_a_failing_input_is_reported_and_the_others_are_saved(files: Path, source: str, workers: str) -> None:
    saved = ("--output-dir", "out", "--output", "y=all.npz", "--output", "n")
    result = run("--batch", source, "--workers", workers, *saved)
    assert result.exit_code == 1
    assert result.stdout == "3 inputs: 2 done, 1 failed\n"
    assert result.stderr.startswith("i1.npz (input 1): error[insert-mismatch]: `x` is declared f32, found an array of")
    assert sorted(p.name for p in Path("out").iterdir()) == ["i0.npz", "i2.npz"]
    with np.load("out/i2.npz") as found:
        assert {name: found[name].tolist() for name in found} == {"y": [6, 16], "n": 1}
    with np.load("all.npz") as found:
        assert {name: found[name].tolist() for name in found} == {"y": [[2, 20], [6, 16]], "batch.index": [0, 2]}
    assert sorted(p.name for p in Path().iterdir()) == ["all.npz", "g.oi", "in", "m.oinf", "out", "x.npz"]


def test_failures_that_are_the_same_are_reported_once(files: Path) -> None:
    for index in (3, 4):
        np.savez(f"in/i{index}.npz", x=np.zeros(2))
    np.savez("in/i5.npz", x=np.zeros(3, np.float32))
    first, other, again = run("--batch", "in", "--output", "n").stderr.splitlines()
    assert first.startswith("i1.npz (input 1): error[insert-mismatch]: `x` is declared f32, found an array of float64")
    assert other.startswith("i5.npz (input 5): error[insert-mismatch]: `x` is declared f32[2]")
    assert again == "2 more inputs failed as i1.npz did: i3.npz, i4.npz"
    np.save("in/many.npy", np.zeros((12, 2)))
    assert run("--batch", "in/many.npy", "--output", "n").stderr.splitlines()[1:] == [
        "11 more inputs failed as row 0 did: row 1, row 2 ... row 11"
    ]


def test_the_command_reports_results_and_failures_as_json(files: Path) -> None:
    result = run("--batch", "in", "--json", "--output", "y")
    document = json.loads(result.stdout)
    assert (document["inputs"], document["failed"]) == (3, 1)
    assert [r["name"] for r in document["results"]] == ["i0.npz", "i1.npz", "i2.npz"]
    assert document["results"][0]["outputs"]["y"]["values"] == [2, 20]
    assert document["results"][1]["error"]["code"] == "insert-mismatch"


def test_inputs_of_the_command_line_are_shared_and_random_ones_differ(files: Path) -> None:
    shared = run("--batch", "x.npz", "--input", "s=1", "--output", "y", "--json")
    values = [r["outputs"]["y"]["values"] for r in json.loads(shared.stdout)["results"]]
    assert values == [[1, 10], [2, 9], [3, 8]]
    drawn = [
        [
            r["outputs"]["y"]["values"]
            for r in json.loads(run("--batch", "x.npz", "--input", "s=random", "--json", *more).stdout)["results"]
        ]
        for more in ((), ("--look-ahead", "1"), ("--seed", "1"))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    scales = [y[0] / (index + 1) for index, y in enumerate(drawn[0])]
    assert len(set(scales)) == 3
    twice = run("--batch", "x.npz", "--input", "x=1")
    assert twice.exit_code == 1
    assert "`x` is in the file and in --input" in twice.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "2"], "--workers is about the inputs of --batch"),
        (["--state-per", "input"], "--state-per is about the inputs of --batch"),
        (["--batch", "x.npz", "--state", "s.oinf"], "--state does not go with --batch"),
        (["--batch", "x.npz", "--steps", "0"], "--steps 0 does not go with --batch"),
        (["--batch", "x.npz", "--workers", "0"], "invalid value for '--workers'"),
        (["--batch", "x.npz", "--timeout", "0"], "invalid value for '--timeout'"),
        (["--timeout", "1"], "--timeout is about the inputs of --batch"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(files: Path, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--batch", "x.npz", "--runner", "process"], "unknown-runner"),
        (["--batch", "x.npz", "--workers", "2", "--state-per", "worker"], "batch-state"),
        (["--batch", "none"], "input-file"),
        (["--batch", "in", "--output-dir", "in"], "batch-output"),
        (["--batch", "in", "--output", "y=y.npy"], "batch-output"),
        (["--batch", "x.npz", "--input", "q=1"], "unknown-variable"),
    ],
)
def test_a_batch_that_cannot_begin_says_why(files: Path, arguments: list[str], code: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error[{code}]: ")


def test_an_input_that_takes_too_long_is_reported_and_the_others_go_on(files: Path) -> None:
    Path("g.oi").write_text(ENDLESS)
    np.savez("t.npz", x=np.ones(3), turns=np.array([2, 10**12, 3]))
    # An input takes a few milliseconds.
    limit = limit_s(0.25)
    result = run("--batch", "t.npz", "--timeout", str(limit))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "3 inputs: 2 done, 1 failed"
    message = f"row 1 (input 1): error[input-timeout]: this input took longer than {limit:g} s: its"
    assert result.stderr.startswith(message)


def test_an_error_in_a_statement_shows_its_line(files: Path) -> None:
    Path("g.oi").write_text(
        "dynamic { x: f32[B]; i: i64[1]; }\nvolatile { y: f32[1]; }\n"
        "block entry {\n  op gather(x, i) >> y;\n  return y;\n}\n"
    )
    np.savez("g.npz", x=np.zeros((2, 2), np.float32), i=np.array([[1], [9]]))
    result = run("--batch", "g.npz")
    assert result.exit_code == 1
    assert "error[out-of-range]" in result.stderr
    assert "g.oi:4:" in result.stderr


COMMAND = [sys.executable, "-m", "openinfer", "run", "g.oi", "--model", "m.oinf"]


# Shows progress from the first input on, not after seconds.
AT_ONCE = """
import openinfer_oinf.progress as progress, openinfer.cli
progress._SECONDS_BEFORE = progress._SECONDS_BETWEEN = 0
openinfer.cli.main()
"""


def test_the_progress_bar_shows_on_a_terminal_only(files: Path) -> None:
    arguments = [*COMMAND, "--batch", "x.npz", "--output-dir", "out"]
    quiet = subprocess.run(arguments, capture_output=True, text=True, timeout=limit_s(60), check=True)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    at_once = [sys.executable, "-c", AT_ONCE, *arguments[3:]]
    finished = subprocess.run(at_once, stdout=subprocess.PIPE, stderr=theirs, timeout=limit_s(60), check=True)
    os.close(theirs)
    shown_there = b""
    with suppress(OSError):
        while part := os.read(ours, 4096):
            shown_there += part
    os.close(ours)
    assert finished.stdout == b"3 inputs: 3 done, 0 failed\n"
    assert b"inputs" in shown_there
    assert b"100%" in shown_there


def children(pid: int) -> list[int]:
    return [int(c) for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]


@pytest.mark.parametrize("turns", [100_000, 10**12])
@pytest.mark.parametrize("signal_sent", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_workers_end_with_the_command(files: Path, signal_sent: signal.Signals, turns: int) -> None:
    Path("g.oi").write_text(ENDLESS.replace("turns: i64;", "turns: i64 @init(1);"))
    np.savez("many.npz", x=np.zeros(500), turns=[1, *[turns] * 499])
    arguments = [*COMMAND, "--batch", "many.npz", "--runner", "processes", "--workers", "1"]
    workers: list[int] = []
    with (
        interruptible(),
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("row 0: ")
            workers = children(process.pid)
            process.send_signal(signal_sent)
            _, message = process.communicate(timeout=limit_s(60))
            left = until_ended(workers, seconds=limit_s(30))
        finally:
            process.kill()
            for pid in until_ended(workers, seconds=0):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert (len(workers), left) == (1, [])
    if signal_sent == signal.SIGINT:
        assert (process.returncode, message) == (130, "interrupted\n")


def test_without_ray_the_command_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run("--batch", "x.npz", "--runner", "ray")
    assert result.exit_code == 3
    assert result.stderr.startswith("error[environment]: the runner ray needs Ray, which is not installed: ")
    assert 'install "openinfer-core[ray]"' in result.stderr
