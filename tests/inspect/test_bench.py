"""`openinfer bench`: what is measured, how it is summed up, and what is printed."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import openinfer as oi
from openinfer.cli import main
from openinfer.inspect import benchmark
from openinfer.inspect.benchmark import node_times, spread, whole_times
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """dynamic { x: f32[B]; }
volatile { y: f32[B]; z: f32[B]; }
persistent { n: i32; }
block entry {
  loop thrice (i in 0..3) { op exp(x) >> y; }
  op neg(y) >> z;
  cache.increment n;
  return z;
}
"""


class Clock:
    """A clock that goes on by the next of some durations between two readings."""

    def __init__(self, *durations: int) -> None:
        self.durations = list(durations)
        self.now = 0
        self.runs = False

    def __call__(self) -> int:
        if self.runs:
            self.now += self.durations.pop(0)
        self.runs = not self.runs
        return self.now


def executor(**options: bool) -> oi.Executor:
    model = oi.Model.from_arrays({}, sizevars={"B": 4})
    return oi.Simulator(model, oi.graph(PROGRAM), echo=False, **options).make_executor()


INPUTS = [{"x": np.ones(4, np.float32)}] * 2


def test_repetitions_that_warm_up_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "perf_counter_ns", Clock(900, 800, 10, 20, 30))
    assert whole_times(executor(), INPUTS, warm_up=2, repetitions=3) == [10, 20, 30]


def test_every_repetition_begins_with_the_same_memory() -> None:
    found = executor()
    found.step(x=np.ones(4, np.float32))
    whole_times(found, INPUTS, warm_up=1, repetitions=4)
    assert found.fetch("n") == 1 + 2


def test_nodes_are_operators_with_all_their_runs() -> None:
    found = node_times(executor(trace=True, timer=True), INPUTS, warm_up=1, repetitions=5)
    assert {(each.op, each.runs, each.node_desc) for each in found} == {
        ("exp", 6, "op exp(x) >> y"),
        ("neg", 2, "op neg(y) >> z"),
    }
    assert sum(each.share for each in found) == pytest.approx(1)
    assert [each.median_ns for each in found] == sorted((each.median_ns for each in found), reverse=True)
    assert all(each.median_ns > 0 for each in found)


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40))
def test_a_spread_is_median_quartiles_and_extremes(times: list[int]) -> None:
    found = spread(times)
    assert found.median == statistics.median(times)
    assert (found.lower_quartile, found.upper_quartile) == pytest.approx(tuple(np.percentile(times, [25, 75])))
    assert (found.least, found.most) == (min(times), max(times))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(4)}, "m.oinf")
    return tmp_path


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", "g.oi", "--model", "m.oinf", *arguments])


def test_it_says_what_it_measured(files: Path) -> None:
    lines = bench("--input", "x=random", "--repeat", "4", "--warm-up", "1", "--steps", "2").output.splitlines()
    assert lines[0].startswith("g.oi with m.oinf on cpu: 4 repetitions of 2 steps, after 1 that do not count (")
    assert f"NumPy {np.__version__}" in lines[0]
    assert lines[1].startswith("2 steps: median ")
    assert [line.split(maxsplit=4)[4] for line in lines[5:]] in (
        ["op exp(x) >> y", "op neg(y) >> z"],
        ["op neg(y) >> z", "op exp(x) >> y"],
    )


def test_json_has_the_same_in_nanoseconds(files: Path) -> None:
    document = json.loads(bench("--input", "x=random", "--repeat", "3", "--json").output)
    assert (document["device"], document["repetitions"], document["steps"]) == ("cpu", 3, 1)
    assert document["whole"]["least"] <= document["whole"]["median"] <= document["whole"]["most"]
    assert {(node["op"], node["runs"]) for node in document["nodes"]} == {("exp", 3), ("neg", 1)}


def test_a_program_without_operators_has_no_nodes(files: Path) -> None:
    Path("g.oi").write_text("persistent { n: i32; } block entry { cache.increment n; return; }")
    assert len(bench("--repeat", "1").output.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "reported"),
    [
        ((), 1, "--input NAME=FILE.npy"),
        (("--repeat", "0"), 2, "--repeat"),
        (("--device", "cpuu"), 1, "did you mean `cpu`"),
        (("--input", "x"), 2, "NAME=FILE.npy"),
    ],
)
def test_mistakes_are_reported(files: Path, arguments: tuple[str, ...], code: int, reported: str) -> None:
    result = bench(*arguments)
    assert (result.exit_code, reported in result.output) == (code, True)
