"""Programs over many inputs: in this process and in worker processes that get killed."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import openinfer as oi
from openinfer.cli import main
from openinfer.simulate.batch.processes import Processes
from openinfer.testing.waiting import interruptible, limit_s
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """
dynamic { x: f32[B]; s: f32 @init(2.0); }
volatile { a: f32[B]; y: f32[B]; total: f32[B]; }
persistent { n: i32; sum: f32[B]; }
block entry {
  cache.increment n;
  op add(x, a) >> y;
  op mul(y, s) >> y;
  cache.read sum >> total;
  op add(total, x) >> total;
  cache.write total >> sum;
  return y, n, total;
}
"""
A = np.array([1, 10], np.float32)
MODEL = oi.Model.from_arrays({"a": A}, sizevars={"B": 2})
GRAPH = oi.graph(PROGRAM)
INPUTS = [np.array([i, -i], np.float32) for i in range(7)]
MIXED: list[dict[str, Any]] = [{"x": x} for x in INPUTS]
MIXED[2] = {"x": [1.0]}
MIXED[4] = {"z": 1}
MIXED[5] = {"x": [5, -5.0], "s": 3}


def expected(index: int) -> list[Any]:
    """y, n and total of an input that starts with initial memory, by hand."""
    scale = 3 if index == 5 else 2
    return [[scale * (index + 1.0), scale * (10.0 - index)], 1, [float(index), -float(index)]]


def shown(outcome: Any) -> Any:
    if isinstance(outcome, oi.OpenInferError):
        return type(outcome).__name__, outcome.code
    return [outcome["y"].tolist(), outcome["n"], outcome["total"].tolist()]


RIGHT = [expected(index) for index in range(7)]
RIGHT[2], RIGHT[4] = ("ShapeError", "insert-mismatch"), ("ExecutionError", "unknown-variable")


@pytest.mark.parametrize("arguments", [{}, {"workers": 2}])
def test_results_do_not_depend_on_runner_and_number_of_workers(arguments: dict[str, Any]) -> None:
    found = list(oi.run_batch(MODEL, GRAPH, MIXED, **arguments))
    assert [index for index, _ in found] == list(range(7))
    assert [shown(outcome) for _, outcome in found] == RIGHT


@pytest.mark.parametrize("runner", ["in-process", "processes"])
def test_with_one_state_a_worker_an_input_finds_what_the_one_before_left(runner: str) -> None:
    inputs = [{"x": x} for x in INPUTS]
    found = [outcome for _, outcome in oi.run_batch(MODEL, GRAPH, inputs, runner=runner, state="worker")]
    assert [outcome["n"] for outcome in found] == [1, 2, 3, 4, 5, 6, 7]
    assert [outcome["total"].tolist() for outcome in found] == np.cumsum(INPUTS, axis=0).tolist()


def test_the_state_of_several_workers_is_refused_where_there_is_any() -> None:
    for runner in (None, Processes(2)):
        with pytest.raises(oi.OpenInferError) as caught:
            next(oi.run_batch(MODEL, GRAPH, MIXED, workers=2, state="worker", runner=runner))
        assert caught.value.code == "batch-state"
    stateless = oi.graph("dynamic { x: f32; } volatile { y: f32; } block entry { op neg(x) >> y; return y; }")
    assert oi.run_batch(MODEL, stateless, [{"x": 1}], workers=2, state="worker") is not None


def test_inputs_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def endless() -> Iterator[dict[str, Any]]:
        while True:
            taken.append(len(taken))
            yield {"x": [0.0, 0.0]}

    found = oi.run_batch(MODEL, GRAPH, endless(), look_ahead=3)
    assert taken == []
    assert next(found)[0] == 0
    assert len(taken) <= 3


class Unreadable:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise KeyError("oops")


@pytest.mark.parametrize("runner", ["in-process", "processes"])
def test_results_come_before_the_error_of_what_makes_the_inputs(runner: str) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield from MIXED[:2]
        yield {"x": Unreadable()}
        raise LookupError("no more")

    found = oi.run_batch(MODEL, GRAPH, failing(), runner=runner, look_ahead=8)
    assert [shown(next(found)[1]) for _ in range(3)] == [*RIGHT[:2], ("DTypeError", "insert-mismatch")]
    with pytest.raises(LookupError, match="no more"):
        next(found)


def test_outputs_steps_and_sizes_are_those_asked_for() -> None:
    program = oi.graph(
        "dynamic { x: f32[B]; } persistent { K(t): f32[B] @table; n: i32; } "
        "block entry { cache.write x >> K[n]; cache.increment n; return; }"
    )
    inputs = [{"x": np.ones(3, np.float32)}, {"x": [1.0, 2.0, 3.0]}]
    found = list(oi.run_batch(MODEL, program, inputs, outputs=["K[0..2]", "n"], steps=2, sizes={"B": 3}))
    assert [outcome["n"] for _, outcome in found] == [2, 2]
    assert found[1][1]["K[0..2]"].tolist() == [[1, 2, 3], [1, 2, 3]]
    with pytest.raises(oi.ExecutionError, match="unknown variable `m`") as caught:
        oi.run_batch(MODEL, program, inputs, outputs=["m"], sizes={"B": 3})
    assert caught.value.code == "unknown-variable"


@pytest.mark.parametrize(
    "arguments",
    [
        *({"workers": 0}, {"steps": 0}, {"retries": -1}, {"look_ahead": 0}, {"state": "both"}),
        *({"timeout": 0}, {"timeout": -1.0}, {"timeout": float("nan")}, {"timeout": float("inf")}),
    ],
)
def test_numbers_out_of_range_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="found"):
        oi.run_batch(MODEL, GRAPH, MIXED, **arguments)


def test_a_program_that_does_not_fit_is_refused_before_anything_starts() -> None:
    with pytest.raises(oi.ValidationError):
        oi.run_batch(MODEL, oi.graph("dynamic { x: f32[Q]; } block entry { return; }"), [], workers=2)
    with pytest.raises(oi.DeviceError, match="unknown device 'cpuu'"):
        oi.run_batch(MODEL, GRAPH, [], device="cpuu")


TYPES = """
dynamic { x: bf16[2]; k: i4[3]; b: bool; }
volatile { y: bf16[2]; p: i4[3]; q: bool; w: u2[3]; }
block entry { op add(x, x) >> y; transfer k >> p; transfer b >> q; return y, p, q, w; }
"""


def test_narrow_and_packed_types_and_models_from_files_reach_workers(tmp_path: Path) -> None:
    import ml_dtypes

    from openinfer.dtypes import BY_NAME
    from openinfer.model import ModelContents, save_model

    packed = np.array([0b111001], np.uint8)
    contents = ModelContents(sizevars={}, metadata={}, tensors={"w": (BY_NAME["u2"], (3,), packed)})
    save_model(contents, tmp_path / "m.oinf")
    x = np.array([1.5, -2], ml_dtypes.bfloat16)
    inputs = [{"x": x, "k": np.array([-8, 7, 1], np.int8), "b": True}]
    found = oi.run_batch(tmp_path / "m.oinf", oi.graph(TYPES), inputs, runner=Processes(1), send_model=True)
    ((_, outcome),) = found
    assert outcome["y"].dtype == ml_dtypes.bfloat16
    assert outcome["y"].tolist() == [3, -4]
    assert (outcome["p"].tolist(), outcome["q"], outcome["w"].tolist()) == ([-8, 7, 1], True, [1, 2, 3])


SLOW = """
dynamic { x: f64; }
volatile { y: f64; }
block entry {
  transfer x >> y;
  loop long (i in 0..N) { op add(y, x) >> y; }
  return y;
}
"""


def slow_batch(runner: Any, **arguments: Any) -> Iterator[tuple[int, Any]]:
    model = oi.Model.from_arrays({}, sizevars={"N": 60_000})
    inputs = [{"x": float(index)} for index in range(6)]
    graph = oi.graph(SLOW)
    return oi.run_batch(model, graph, inputs, runner=runner, **arguments)


class Counting(Processes):
    """Counts the workers that it starts."""

    started = 0

    def start(self, job: Any) -> Any:
        self.started += 1
        return super().start(job)


class Deadly(Counting):
    """Kills the process that gets the number 2, some times."""

    def __init__(self, workers: int, times: int) -> None:
        super().__init__(workers)
        self.left = times

    def start(self, job: Any) -> Any:
        worker = super().start(job)
        run = worker.run

        def deadly(request: bytes) -> bytes:
            if b'"value": 2.0' in request and self.left:
                self.left -= 1
                os.kill(worker.pid, signal.SIGKILL)
            return run(request)

        worker.run = deadly
        return worker


@pytest.mark.parametrize("workers", [1, 2])
def test_inputs_of_a_killed_worker_are_run_again(workers: int) -> None:
    runner = Deadly(workers, times=1)
    assert list(slow_batch(runner)) == [(index, {"y": index * 60_001.0}) for index in range(6)]
    # How many more than one are started depends on when threads run, but a worker that was lost has to be replaced.
    assert runner.started > 1
    assert runner.left == 0
    assert runner.pids == []


def test_a_worker_that_is_killed_each_time_fails_its_input_only() -> None:
    results = list(slow_batch(Deadly(2, times=2), retries=1))
    (failed,) = [outcome for _, outcome in results if isinstance(outcome, oi.OpenInferError)]
    assert failed.code == "worker-lost"
    assert "lost 2 times" in str(failed)
    assert "SIGKILL" in str(failed)
    assert [index for index, outcome in results if outcome is not failed] == [0, 1, 3, 4, 5]


ENDLESS = """
dynamic { x: f64; turns: i64; }
volatile { y: f64; }
block entry {
  loop long (i in 0..turns) { op add(y, x) >> y; }
  return y;
}
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_hangs_is_ended_and_its_input_fails(stopped: bool) -> None:
    class Stopping(Processes):
        """Stops its first process, which then takes no signal but one."""

        def start(self, job: Any) -> Any:
            worker = super().start(job)
            if stopped and len(self.pids) == 1:
                os.kill(worker.pid, signal.SIGSTOP)
            return worker

    turns = [1 if stopped else 10**12, 2, 3]
    inputs = [{"x": 1.0, "turns": each} for each in turns]
    runner = Stopping(1)
    begun = time.monotonic()
    found = oi.run_batch(oi.Model.from_arrays({}), oi.graph(ENDLESS), inputs, runner=runner, timeout=limit_s(0.5))
    failed = next(found)[1]
    assert isinstance(failed, oi.ExecutionError)
    assert failed.code == "input-timeout"
    if stopped:
        assert time.monotonic() - begun < limit_s(20)
        found.close()
    else:
        assert [outcome["y"] for _, outcome in found] == [2.0, 3.0]
    assert runner.pids == []


def test_a_time_limit_takes_processes_unless_a_runner_is_named() -> None:
    assert [outcome["n"] for _, outcome in oi.run_batch(MODEL, GRAPH, MIXED[:2], timeout=60)] == [1, 1]
    with pytest.raises(oi.OpenInferError, match="a time limit takes processes") as caught:
        list(oi.run_batch(MODEL, GRAPH, MIXED, timeout=60, runner="in-process"))
    assert caught.value.code == "input-timeout"


def test_the_memory_of_a_killed_worker_is_made_again() -> None:
    runner = Counting(1)
    inputs = [{"x": x} for x in INPUTS]
    found = oi.run_batch(MODEL, GRAPH, inputs, runner=runner, state="worker", look_ahead=1)
    outcomes = [next(found)[1] for _ in range(3)]
    os.kill(runner.pids[0], signal.SIGKILL)
    outcomes += [outcome for _, outcome in found]
    assert runner.started == 2
    assert [outcome["n"] for outcome in outcomes] == [1, 2, 3, 4, 5, 6, 7]
    assert [outcome["total"].tolist() for outcome in outcomes] == np.cumsum(INPUTS, axis=0).tolist()


def test_leaving_early_ends_the_processes() -> None:
    runner = Processes(2)
    found = slow_batch(runner)
    next(found)
    pids = runner.pids
    assert pids
    found.close()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_processes_that_cannot_start_end_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(oi.EnvironmentLacksError, match=r"do not start: process .* ended with exit code 1"):
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=2))


def test_an_environment_of_the_program_stays_in_this_process() -> None:
    with pytest.raises(oi.PluginError, match="cannot be sent to other processes"):
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=2, environment=oi.Environment.default()))


# The command


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
def test_a_failing_input_is_told_and_the_others_are_saved(files: Path, source: str, workers: str) -> None:
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


def test_failures_that_are_the_same_are_told_once(files: Path) -> None:
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


def test_the_command_tells_results_and_failures_as_json(files: Path) -> None:
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
    ("arguments", "told"),
    [
        (["--workers", "2"], "--workers is about the inputs of --batch"),
        (["--state-per", "input"], "--state-per is about the inputs of --batch"),
        (["--batch", "x.npz", "--state", "s.oinf"], "--state does not go with --batch"),
        (["--batch", "x.npz", "--steps", "0"], "--steps 0 does not go with --batch"),
        (["--batch", "x.npz", "--workers", "0"], "Invalid value for '--workers'"),
        (["--batch", "x.npz", "--timeout", "0"], "Invalid value for '--timeout'"),
        (["--timeout", "1"], "--timeout is about the inputs of --batch"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(files: Path, arguments: list[str], told: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert told in result.stderr


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


def test_an_input_that_takes_too_long_is_told_and_the_others_go_on(files: Path) -> None:
    Path("g.oi").write_text(ENDLESS)
    np.savez("t.npz", x=np.ones(3), turns=np.array([2, 10**12, 3]))
    result = run("--batch", "t.npz", "--timeout", "0.5")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "3 inputs: 2 done, 1 failed"
    assert result.stderr.startswith("row 1 (input 1): error[input-timeout]: this input took longer than 0.5 s: its")


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


def test_the_progress_bar_shows_on_a_terminal_only(files: Path) -> None:
    arguments = [*COMMAND, "--batch", "x.npz", "--output-dir", "out"]
    quiet = subprocess.run(arguments, capture_output=True, text=True, timeout=limit_s(60), check=True)
    assert quiet.stderr == ""
    ours, theirs = pty.openpty()
    finished = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, timeout=limit_s(60), check=True)
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


def until_ended(processes: list[int], seconds: float) -> list[int]:
    """Wait for the end of processes; return those that have not ended by then."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in processes if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


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
            _, told = process.communicate(timeout=limit_s(60))
            left = until_ended(workers, seconds=limit_s(30))
        finally:
            process.kill()
            for pid in until_ended(workers, seconds=0):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    assert (len(workers), left) == (1, [])
    if signal_sent == signal.SIGINT:
        assert (process.returncode, told) == (130, "interrupted\n")


def test_without_ray_the_command_says_what_to_install(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run("--batch", "x.npz", "--runner", "ray")
    assert result.exit_code == 3
    assert result.stderr.startswith("error[environment]: the runner ray needs Ray, which is not installed: pip install")
