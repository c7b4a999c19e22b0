"""What `openinfer run` prints in addition to results: nodes with types and settings, memory, traces."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

import openinfer as oi
from openinfer.cli import main
from openinfer.inspect import memory_over_time
from openinfer.simulate import logs
from openinfer_oinf import SizeVar, write_oinf

PROGRAM = """dynamic { x: f32[B, 2]; limit: f32 @init(2.5); }
volatile { W(l): f32[2] @pattern("w{l}"); y: f32[B, 2]; s: f32[B]; }
persistent { n: i32; K(t): f32[B] @table; }
block entry {
  assign h: f32[B, 2];
  loop rows (l in 0..2) { op mul(x, W[l]) >> h; }
  op clamp(h, min=0.0, max=limit) >> y;
  op sum_axis(y, axes=[1]) >> s;
  cache.write s >> K[n];
  cache.increment n;
  return s;
}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.oi").write_text(PROGRAM)
    write_oinf({"B": SizeVar(3), "w0": np.ones(2, np.float32), "w1": np.full(2, 2, np.float32)}, "m.oinf")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", "g.oi", "--model", "m.oinf", "--input", "x=1", *arguments])


def test_verbose_shows_shapes_types_and_settings_of_every_node(files: Path) -> None:
    lines = run("--verbose").stderr.splitlines()
    clamp = "min=0.0, nan=propagate, max=2.5 (from limit)"
    assert lines == [
        "[entry] g.oi:5 -- assign h -- h: f32[3,2]",
        "[entry] g.oi:6 -- loop rows (l in 0..2)",
        "[entry] g.oi:6 -- op mul(x,W[l=0]) >> h -- x: f32[3,2], W[0]: f32[2] -> h: f32[3,2]",
        "[entry] g.oi:6 -- op mul(x,W[l=1]) >> h -- x: f32[3,2], W[1]: f32[2] -> h: f32[3,2]",
        f"[entry] g.oi:7 -- op clamp(h) >> y -- h: f32[3,2] -> y: f32[3,2] -- {clamp}",
        "[entry] g.oi:8 -- op sum_axis(y) >> s -- y: f32[3,2] -> s: f32[3] -- axes=[1], keepdims=false",
        "[entry] g.oi:9 -- cache.write s >> K[n] -- s: f32[3]",
        "[entry] g.oi:10 -- cache.increment n",
        "[entry] g.oi:11 -- return s",
    ]


CONSUMER = """dynamic { x: f32[B, 2]; } volatile { y: f32[B, 2]; part: f32[2, 2]; } persistent { K(t): f32[2] @table; }
block entry { transfer x >> y; yield y; op neg(x) >> x; await y; return; }
block other { await y; loop turn (k in 0..2) { cache.read K[0..k] >> part; op exp(part) >> part; } yield y; }
"""


def test_nodes_of_consumers_are_shown_as_they_run_with_the_shapes_of_that_moment(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("g.oi").write_text(CONSUMER)
    lines = run("--verbose", "--steps", "2").stderr.splitlines()
    expected = [
        "[entry] g.oi:2 -- transfer x >> y -- x: f32[3,2] -> y: f32[3,2]",
        "[entry] g.oi:2 -- yield y",
        "[other] g.oi:3 -- await y",
        "[other] g.oi:3 -- loop turn (k in 0..2)",
        "[other] g.oi:3 -- cache.read K[0..k] >> part -- part: f32[0,2]",
        "[other] g.oi:3 -- op exp(part) >> part -- part: f32[0,2] -> part: f32[0,2]",
        "[other] g.oi:3 -- cache.read K[0..k] >> part -- part: f32[1,2]",
        "[other] g.oi:3 -- op exp(part) >> part -- part: f32[1,2] -> part: f32[1,2]",
        "[other] g.oi:3 -- yield y",
        "[entry] g.oi:2 -- op neg(x) >> x -- x: f32[3,2] -> x: f32[3,2]",
        "[entry] g.oi:2 -- await y",
        "[entry] g.oi:2 -- return",
    ]
    assert lines == expected * 2
    monkeypatch.setenv("OPENINFER_TRACE", "1")
    logs.read_environment()
    try:
        logged = run("--json").stderr.splitlines()[1:]
    finally:
        monkeypatch.delenv("OPENINFER_TRACE")
        logs.read_environment()
    assert [line.partition(" [TRACE] -- ")[2] for line in logged] == expected


def test_verbose_with_timing_has_durations_of_operators(files: Path) -> None:
    lines = run("--verbose", "--timing").stderr.splitlines()
    assert [line.endswith("ns)") for line in lines] == [" op " in line for line in lines]


def test_the_environment_asks_for_the_same_log(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = run("--json")
    monkeypatch.setenv("OPENINFER_TRACE", "1")
    logs.read_environment()
    try:
        loud = run("--json")
    finally:
        monkeypatch.delenv("OPENINFER_TRACE")
        logs.read_environment()
    assert loud.stdout == quiet.stdout
    reported = [line.partition(" [TRACE] -- ")[2] for line in loud.stderr.splitlines()]
    assert reported[1:] == run("--verbose").stderr.splitlines()


def test_a_shape_that_changes_is_the_one_of_the_moment(files: Path) -> None:
    Path("g.oi").write_text("""dynamic { x: f32[B, 2]; } volatile { r: f32[1, B]; s: f32[B]; }
    persistent { K(t): f32[B] @table; n: i32; }
    block entry { cache.write s >> K[0]; cache.write s >> K[1]; cache.increment 2 n; cache.read K[0..n] >> r;
      return; }""")
    lines = run("--verbose").stderr.splitlines()
    assert lines[-2].endswith("cache.read K[0..n] >> r -- r: f32[2,3]")


def test_live_bytes_are_those_of_the_variables_that_hold_values() -> None:
    arrays = {"w0": np.ones(2, np.float32), "w1": np.ones(2, np.float32)}
    model = oi.Model.from_arrays(arrays, sizevars={"B": 3})
    executor = oi.Simulator(model, oi.graph(PROGRAM, name="g.oi")).make_executor()
    executor.insert(x=np.ones((3, 2), np.float32))
    uses = list(memory_over_time(executor))
    x, h, y, s, w, scalar = 24, 24, 24, 12, 8, 4
    assert [use.live["temporary"] for use in uses] == [h] * 9
    assert [use.live["dynamic"] for use in uses] == [x + scalar] * 9
    assert [use.live["volatile"] for use in uses] == [y + s] * 2 + [y + s + w] + [y + s + 2 * w] * 6
    assert [use.live["persistent"] for use in uses] == [scalar] * 6 + [scalar + s] * 3
    executor.insert(x=np.ones((3, 2), np.float32))
    again = list(memory_over_time(executor))
    assert again[-1].live["persistent"] == scalar + 2 * s


def test_memory_is_a_table_and_json(files: Path) -> None:
    printed = run("--memory").stdout.splitlines()
    assert printed[2].split()[2:6] == ["dynamic", "volatile", "persistent", "temporary"]
    assert [line.split()[0] for line in printed[3:]] == ["most", "last"]
    document = json.loads(run("--memory", "--json", "--steps", "2").stdout)["memory"]
    assert len(document["nodes"]) == 18
    assert document["peak"]["total"] == max(node["total"] for node in document["nodes"])
    assert all(node["total"] == sum(node["live"].values()) for node in document["nodes"])
    assert run("--memory", "--steps", "0").stdout == "no step was run\n"


@pytest.mark.parametrize(
    ("arguments", "perfetto"),
    [
        (("--trace", "t.json"), False),
        (("--trace", "t.perfetto.json"), True),
        (("--trace", "t.json", "--trace-format", "perfetto"), True),
        (("--trace", "t.perfetto.json", "--trace-format", "json"), False),
    ],
)
def test_a_trace_has_the_form_of_its_name_or_the_requested_one(
    files: Path, arguments: tuple[str, ...], perfetto: bool
) -> None:
    assert run(*arguments, "--memory").exit_code == 0
    document = json.loads(Path(arguments[1]).read_text())
    assert isinstance(document, dict) is perfetto
    if perfetto:
        kinds = [event["ph"] for event in document["traceEvents"]]
        assert (kinds.count("X"), kinds.count("C")) == (1 + 1 + 2 + 4, 9)
    else:
        assert list(document[0]) == [
            "block_name", "node_index", "node_uuid", "kind", "params", "output", "micros",
        ]  # fmt: skip


def test_a_step_that_fails_leaves_the_trace_of_what_ran(files: Path) -> None:
    Path("g.oi").write_text(PROGRAM.replace("limit: f32 @init(2.5)", "limit: f32"))
    assert run("--trace", "t.json").exit_code == 1
    assert [event["kind"] for event in json.loads(Path("t.json").read_text())] == [
        "Assign", "Loop", "OpExecute", "OpExecute",
    ]  # fmt: skip
