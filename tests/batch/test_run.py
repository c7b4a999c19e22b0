"""Programs over many inputs: in this process and in worker processes that get killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batched_programs import ENDLESS, GRAPH, INPUTS, MODEL

import openinfer as oi
from openinfer.batch.processes import Processes, ProcessWorker
from openinfer.testing.waiting import limit_s

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


def test_outputs_steps_and_sizes_are_those_requested() -> None:
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


TURNS = 20_000
"""A tenth of a second on the device cpu: long enough to be in it when another process is killed."""


def slow_batch(runner: Any, **arguments: Any) -> Iterator[tuple[int, Any]]:
    model = oi.Model.from_arrays({}, sizevars={"N": TURNS})
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
    assert list(slow_batch(runner)) == [(index, {"y": index * (TURNS + 1.0)}) for index in range(6)]
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
    outcomes = oi.run_batch(oi.Model.from_arrays({}), oi.graph(ENDLESS), inputs, runner=runner, timeout=limit_s(0.25))
    failed = next(outcomes)[1]
    assert isinstance(failed, oi.ExecutionError)
    assert failed.code == "input-timeout"
    if stopped:
        assert time.monotonic() - begun < limit_s(20)
        outcomes.close()
    else:
        assert [outcome["y"] for _, outcome in outcomes] == [2.0, 3.0]
    assert runner.pids == []


def stop_at_start(
    monkeypatch: pytest.MonkeyPatch, stops: Callable[[int], bool], wait_s: float | None = None
) -> list[int]:
    """Stop worker processes, by the order of their starts, before they have read their job; return all numbers.

    ``wait_s`` is how long one that is stopped is waited for, None: as long as for the others.
    """
    pids: list[int] = []
    opened = ProcessWorker.open

    def stopped(self: ProcessWorker, job: bytes, seconds: float) -> None:
        pids.append(self.pid)
        stop = stops(len(pids))
        if stop:
            os.kill(self.pid, signal.SIGSTOP)
        opened(self, job, wait_s if stop and wait_s is not None else seconds)

    monkeypatch.setattr(ProcessWorker, "open", stopped)
    return pids


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_that_hangs_while_it_starts_delays_no_input_or_is_replaced(
    monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    pids = stop_at_start(monkeypatch, lambda number: number == 1, None if workers > 1 else 0.1)
    outcomes = oi.run_batch(MODEL, GRAPH, MIXED, workers=workers, timeout=limit_s(30))
    assert [shown(outcome) for _, outcome in outcomes] == RIGHT
    assert (len(pids), alive(pids)) == (2, [])


def test_processes_that_all_hang_while_they_start_end_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    pids = stop_at_start(monkeypatch, lambda _: True)
    with pytest.raises(
        oi.OpenInferError, match=r"no worker starts, tried 2 times: process \d+ was not ready after 0\.5 s"
    ) as caught:
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=2, retries=1, start_timeout=0.5))
    assert caught.value.code == "worker-lost"
    assert alive(pids) == []


HANGING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])
with open(os.environ["PIDS"], "a") as file:
    file.write(f"{os.getpid()} {child.pid}\\n")
time.sleep(1000)
"""
"""A module that starts a process and hangs when it is imported."""


@pytest.fixture
def hanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let processes that are started from here on hang when they import NumPy; return where they write numbers."""
    (tmp_path / "numpy.py").write_text(HANGING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def numbers(file: Path) -> list[int]:
    return [int(word) for word in file.read_text().split()] if file.exists() else []


def left_alive(pids: list[int]) -> list[int]:
    """Return which processes are left after some time."""
    deadline = time.monotonic() + limit_s(20)
    while (left := alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return left


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_what_a_worker_starts_while_it_hangs_ends_with_it(hanging: Path) -> None:
    with pytest.raises(oi.OpenInferError, match="was not ready"):
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=1, retries=0, start_timeout=limit_s(0.5)))
    assert len(numbers(hanging)) == 2
    assert left_alive(numbers(hanging)) == []


PARENT = """
import os, sys
import openinfer as oi
os.environ["PYTHONPATH"] = sys.argv[1]
graph = oi.graph("dynamic { x: f32; } block entry { return x; }")
list(oi.run_batch(oi.Model.from_arrays({}), graph, [{"x": 1.0}], runner="processes", workers=1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found through /proc")
def test_a_worker_that_imports_ends_with_its_parent(hanging: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    with subprocess.Popen([sys.executable, "-c", PARENT, str(hanging.parent)]) as parent:
        deadline = time.monotonic() + limit_s(60)
        while len(numbers(hanging)) < 2 and parent.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
    assert len(numbers(hanging)) == 2
    assert left_alive(numbers(hanging)) == []


@pytest.mark.skipif(shutil.which("cc") is None, reason="device c needs a C compiler")
@pytest.mark.parametrize("runner", ["in-process", "processes"])
def test_limits_of_caches_reach_every_worker(runner: str) -> None:
    program = oi.graph("""
    dynamic { x: f32; }
    volatile { y: f32; }
    persistent { K(t): f32[] @table; n: i32; }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> all;
      op sum_axis(all, axes=[0]) >> y;
      return y;
    }
    """)
    model, inputs = oi.Model.from_arrays({}), [{"x": 1.0}, {"x": 2.0}]

    def results(limit: int) -> list[object]:
        options = {"device": "c", "runner": runner, "steps": 3, "limits": {"t": limit}}
        return [outcome for _, outcome in oi.run_batch(model, program, inputs, **options)]

    assert [outcome["y"] for outcome in results(3)] == [3.0, 6.0]
    assert all(isinstance(outcome, oi.ExecutionError) and "bound" in str(outcome) for outcome in results(2))


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
    with pytest.raises(oi.MissingDependencyError, match=r"do not start: process .* ended with exit code 1"):
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=2))


def test_an_environment_of_the_program_stays_in_this_process() -> None:
    with pytest.raises(oi.PluginError, match="cannot be sent to other processes"):
        list(oi.run_batch(MODEL, GRAPH, MIXED, workers=2, environment=oi.Environment.default()))
