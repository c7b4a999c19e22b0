"""Random programs whose sizes change from step to step: that they agree, and that the fuzzer sees where they do not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.ir.nodes import Await, CacheIncrement, CacheRead, CacheWrite, Loop, Op, Yield
from openinfer.plugins.environment import Environment

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


@needs_gcc
def test_programs_of_changing_sizes_are_the_same_on_cpu_and_in_c(fuzzer: Path) -> None:
    command = [sys.executable, str(fuzzer), "--varying-sizes", "--start", "211", "--count", "12"]

    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "cpu: 12 programs" in run.stdout


def test_sizes_are_zero_one_and_the_limit_in_changing_order(programs: Any) -> None:
    drawn = [programs("sized_drawing").drawn_sized_sample(0, number, Environment.default()) for number in range(40)]
    kinds = {type(node.kind) for sample in drawn for _, node in sample.graph.nodes()}
    sizes = [[sample.sizes_of_step(inputs) for inputs in sample.steps] for sample in drawn]

    assert {Await, CacheIncrement, CacheRead, CacheWrite, Loop, Op, Yield} <= kinds
    assert {step["T"] for steps in sizes for step in steps} >= {0, 1, 2, 5, 6}
    assert {step["U"] for steps in sizes for step in steps} >= {0, 1, 2, 4, 5}
    assert sum(len({step["T"] for step in steps}) > 1 for steps in sizes) > 30


def test_a_program_of_changing_sizes_depends_on_its_seed_and_number_alone(programs: Any) -> None:
    environment, draw = Environment.default(), programs("sized_drawing").drawn_sized_sample
    first, again = (draw(3, 7, environment).text() for _ in range(2))

    assert first == again
    assert draw(4, 7, environment).text() != first


TEXT = """
dynamic { x: f32[T, 4]; u: f32[U]; }
volatile { y: f32[T, 4]; s: f32[U]; }
persistent { n: i32; K(t): f32[4] @table; }
block entry {
  cache.read n >> at;
  op add(x, x) >> y;
  cache.write y >> K[at..at+T];
  cache.read K[0..at+T] >> rows;
  op sum_axis(rows, axes=[0]) >> total;
  op neg(u) >> s;
  cache.increment T n;
  return y, s, total;
}
"""


def sample_of(programs: Any, text: str, *sizes: tuple[int, int]) -> Any:
    steps = tuple(
        {"x": np.ones((rows, 4), np.float32), "u": np.arange(length, dtype=np.float32)} for rows, length in sizes
    )
    usual, limits = {"T": 3, "U": 2}, {"T": 6, "U": 5, "K.t": 40}
    return programs("sample").Sample(graph(text), usual, {}, steps, limits=limits)


def examined(programs: Any, sample: Any, **places: Any) -> list[Any]:
    examining = programs("examining")
    return examining.examine({0: sample}, examining.Plan(Environment.default(), **places), programs("tally").Tally())


@needs_gcc
@pytest.mark.parametrize("place", ["builds", "targets", "devices"])
def test_steps_of_changing_sizes_run_in_each_place(programs: Any, place: str) -> None:
    places = {
        "builds": (programs("c_batches").Build("gcc", "O0"),),
        "targets": ("emitted-c",),
        "devices": ("device-c",),
    }
    sample = sample_of(programs, TEXT, (3, 2), (0, 5), (6, 0), (1, 1))

    assert examined(programs, sample, **{place: places[place]}) == []


def test_what_is_wrong_at_one_size_is_found_and_shrunk(programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    examining, running = programs("examining"), programs("running")
    run_on = examining.run_on

    def wrong_where_u_is_four(sample: Any, device: str, environment: Environment, **options: Any) -> Any:
        ran = run_on(sample, "cpu", environment, **options)
        sizes = [sample.sizes_of_step(inputs).get("U", 0) for inputs in sample.steps]
        is_wrong = [device == "c" and size >= 4 for size in sizes]
        steps = (
            running.Failed("shape-mismatch") if wrong else step for wrong, step in zip(is_wrong, ran.steps, strict=True)
        )
        return replace(ran, steps=tuple(steps))

    monkeypatch.setattr(examining, "run_on", wrong_where_u_is_four)
    plan = examining.Plan(Environment.default(), devices=("device-c",))
    sample = sample_of(programs, TEXT, (3, 2), (2, 5), (1, 1))

    findings = examining.examine({0: sample}, plan, programs("tally").Tally())
    small = programs("shrinking").shrunk(sample, findings[0], plan)

    assert [finding.kind for finding in findings] == ["device-c: the error shape-mismatch, expected no error"]
    assert [small.sizes_of_step(inputs)["U"] for inputs in small.steps] == [4]
    assert len(list(small.graph.nodes())) < len(list(sample.graph.nodes()))


EDGES = {
    "folds of no rows to no columns": """
        dynamic { x: f32[T, 4]; u: f32[U]; }
        persistent { K(t): f32[4] @table; }
        block entry {
          op matmul(x, x, trans_b=true) >> pairs; op expand(u, shape=[T, U]) >> rows; cache.write x >> K[0..T];
          op max_axis(rows, axes=[0]) >> most; op argmax_axis(rows, axis=0) >> place;
          op cast(pairs, to=i32) >> whole; op mean_axis(whole, axes=[1]) >> mean;
          return most, place, mean;
        }""",
    "transfers of shapes that no declaration has": """
        dynamic { x: f32[T, 4]; u: f32[U]; }
        volatile { rows: f32[T, 4]; }
        persistent { n: i32; K(t): f32[4] @table; }
        block entry {
          cache.read n >> at; cache.write x >> K[at..at+T]; cache.read K[at..at+T] >> rows; cache.read K[0..at] >> past;
          op slice(x, axes=[1], starts=[U], ends=[4]) >> part;
          transfer part >> third; cache.increment T n;
          return rows, past, third;
        }""",
    "a block that two loops enter, of which one has no iteration": """
        dynamic { x: f32[T, 4]; u: f32[U]; }
        persistent { n: i32; K(t): f32[4] @table; }
        block entry {
          cache.read n >> before; cache.increment n; op neg(x) >> y; cache.write x >> K[0..T];
          loop rows (i in 0..T) { branch part; }
          loop columns (i in 0..U) { branch part; }
          return before, y;
        }
        block part { op narrow(u, axis=0, start=0, length=2) >> some; op neg(some) >> other; }""",
}


@needs_gcc
@pytest.mark.rule("runtime.sizes.7")
def test_shapes_that_steps_decide_are_those_of_cpu(programs: Any) -> None:
    sizes = ((3, 2), (0, 0), (1, 1), (0, 2), (0, 1), (2, 0), (6, 5))
    samples = {number: sample_of(programs, text, *sizes) for number, text in enumerate(EDGES.values())}
    examining, build = programs("examining"), programs("c_batches").Build("gcc", "O0")
    tally = programs("tally").Tally()

    findings = examining.examine(samples, examining.Plan(Environment.default(), builds=(build,)), tally)

    assert findings == []
    assert tally.ran == {"cpu": len(EDGES), f"c, {build}": len(EDGES)}


REFUSED = """
dynamic { x: f32[T, 4]; u: f32[U]; }
volatile { y: f32[T, 4]; unused: f32[2+T-U]; }
persistent { n: i32; K(t): f32[4] @table; }
block entry {
  cache.read n >> before;
  cache.write x >> K[before..before+T];
  cache.increment T n;
  op neg(x) >> y;
  loop rows (i in 0..U) { op select(x, axis=0, index=1) >> row; }
  op sum(u) >> total;
  op cast(total, to=bool) >> several;
  branch several long short;
  branch always;
  cache.read K[0..before] >> past;
  op max_axis(past, axes=[0]) >> most;
  return y, before, past, most;
}
block short { cache.increment n; op narrow(x, axis=0, start=2, length=1) >> part; op neg(part) >> other; }
block long { return; }
block always { loop more (i in U..3) { branch deeper; } }
block deeper { op select(x, axis=0, index=T-1) >> row; assign rest: f32[U+T-2]; }
"""
"""Steps return the entries that earlier ones left, those that were refused included."""


@needs_gcc
@pytest.mark.rule("runtime.sizes.7", "runtime.sizes.8")
@pytest.mark.parametrize("target", ["c", "vulkan"])
def test_refused_steps_leave_the_same_in_projects_of_targets(
    programs: Any, target: str, request: pytest.FixtureRequest
) -> None:
    if target == "vulkan":
        request.getfixturevalue("vulkan")
    steps = ((3, 3), (1, 3), (0, 0), (2, 0), (2, 2), (1, 0), (1, 1), (3, 1), (2, 4), (4, 5), (1, 4), (3, 0))
    sample = sample_of(programs, REFUSED, *steps)
    ran = programs("running").run_on(sample, "cpu", Environment.default())
    codes = [getattr(step, "code", None) for step in ran.steps]

    assert codes.count("insert-mismatch") >= 3
    assert codes.count("shape-mismatch") >= 1
    assert codes.count(None) >= 3
    assert examined(programs, sample, targets=(f"emitted-{target}",)) == []
