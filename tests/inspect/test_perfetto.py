"""Traces for Perfetto: tracks, nested slices, times (the format's own rules are the oracle)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openinfer as oi
from openinfer.events import TraceEvent
from openinfer.serialize import trace_from_json

PROGRAM = """
dynamic { x: f32[2]; c: bool; }
volatile { y: f32[2]; z: f32[2]; }
block entry {
  loop outer (i in 0..2) {
    op add(y, x) >> y;
    loop inner (j in i..2) { op mul(y, x) >> y; branch c work idle; }
  }
  yield y;
  await y;
  branch work;
  return y;
}
block work { op exp(x) >> z; }
block idle { return; }
block reader { await y; op neg(y) >> y; loop twice (k in 0..2) { op neg(y) >> y; } yield y; }
"""


def events_of(text: str, *, merged: bool = False, steps: int = 1, **inputs: Any) -> list[TraceEvent]:
    simulator = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), trace=True, timer=True, echo=False)
    executor = simulator.make_executor()
    for _ in range(steps):
        executor.insert(inputs)
        if merged:
            executor.step()
        else:
            list(executor.iterate())
    return executor.trace()


def tracks(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Slices and instants by the name of their track."""
    names = {e["tid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for event in document["traceEvents"]:
        if event["ph"] in "Xi":
            found[names[event["tid"]]].append(event)
    return found


def outline(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Depth and name of every event, checked for proper nesting: an event lies inside the slice that is open."""
    open_slices: list[tuple[float, float]] = []
    found: list[tuple[int, str]] = []
    last = 0.0
    for event in events:
        start, end = event["ts"], event["ts"] + event.get("dur", 0.0)
        assert start >= last, "times go on"
        last = start
        while open_slices and not (start >= open_slices[-1][0] and end <= open_slices[-1][1] + 1e-9):
            assert start >= open_slices[-1][1] - 1e-9, "a slice ends before the next begins"
            open_slices.pop()
        found.append((len(open_slices), event["name"]))
        if event["ph"] == "X":
            open_slices.append((start, end))
    return found


def names(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events]


@pytest.mark.parametrize("merged", [False, True])
def test_blocks_loops_iterations_and_consumers_are_nested_slices(merged: bool) -> None:
    document = oi.trace_to_perfetto(events_of(PROGRAM, merged=merged, x=np.ones(2, np.float32), c=True))
    found = tracks(document)

    assert list(found) == ["entry", "reader"]
    expected = [
        "block entry", "loop outer (i in 0..2)", "loop outer",
        "i = 0", "op add(y,x) >> y", "loop inner (j in i..2)", "loop inner",
        "j = 0", "op mul(y,x) >> y", "branch c work idle", "block work", "op exp(x) >> z",
        "j = 1", "op mul(y,x) >> y", "branch c work idle", "block work", "op exp(x) >> z",
        "i = 1", "op add(y,x) >> y", "loop inner (j in i..2)", "loop inner",
        "j = 1", "op mul(y,x) >> y", "branch c work idle", "block work", "op exp(x) >> z",
        "yield y", "await y", "branch work", "block work", "op exp(x) >> z", "return y",
    ]  # fmt: skip
    assert names(found["entry"]) == expected
    depths = dict(zip(names(found["entry"]), [depth for depth, _ in outline(found["entry"])], strict=True))
    assert depths["return y"] == depths["yield y"] == 1
    assert depths["block entry"] == 0
    assert names(found["reader"]) == [
        "block reader", "await y", "op neg(y) >> y", "loop twice (k in 0..2)", "loop twice",
        "k = 0", "op neg(y) >> y", "k = 1", "op neg(y) >> y", "yield y",
    ]  # fmt: skip
    outline(found["reader"])


def test_every_step_is_a_run_of_entry() -> None:
    found = tracks(oi.trace_to_perfetto(events_of(PROGRAM, steps=3, x=np.ones(2, np.float32), c=False)))
    assert [name for depth, name in outline(found["entry"]) if depth == 0] == ["block entry"] * 3


def test_a_recursive_block_nests_in_itself() -> None:
    text = """
    dynamic { n: i32; } volatile { one: i32 @init(1); zero: i32; more: bool; left: i32; }
    block entry { transfer n >> left; branch again; return; }
    block again { op sub(left, one) >> left; op gt(left, zero) >> more; branch more again stop; }
    block stop { return; }
    """
    found = tracks(oi.trace_to_perfetto(events_of(text, n=3)))
    blocks = [(depth, name) for depth, name in outline(found["entry"]) if name.startswith("block")]
    assert blocks == [
        (0, "block entry"),
        (1, "block again"),
        (2, "block again"),
        (3, "block again"),
        (4, "block stop"),
    ]


def test_the_document_is_what_the_format_asks_for() -> None:
    document = oi.trace_to_perfetto(events_of(PROGRAM, x=np.ones(2, np.float32), c=True))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for event in document["traceEvents"]:
        assert event["pid"] == 1
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        assert ("dur" in event) == (event["ph"] == "X")
    add = next(event for event in document["traceEvents"] if event["name"] == "op add(y,x) >> y")
    assert (add["ph"], add["cat"], add["args"]["inputs"], add["args"]["output"]) == ("X", "add", ["y", "x"], ["y"])
    assert add["dur"] > 0


def test_a_program_adds_lines_types_and_bytes_of_results() -> None:
    text = (
        "dynamic { x: f32[2]; }\npersistent { n: i32; K(t): f32[2] @table; }\nvolatile { y: f32[2]; }\nblock entry {\n"
    )
    text += "  op relu(x) >> y;\n  cache.read K[0..n] >> k;\n  return y;\n}"
    simulator = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), trace=True, echo=False)
    executor = simulator.make_executor()
    executor.step(x=np.ones(2, np.float32))
    document = oi.trace_to_perfetto(executor.trace(), program=executor.program)
    facts = {each["name"]: each["args"] for each in document["traceEvents"] if "node" in each.get("args", {})}

    assert (facts["op relu(x) >> y"]["line"], facts["op relu(x) >> y"]["results"]) == (5, {"y": "f32[2], 8 bytes"})
    read = facts["cache.read K[0..n] >> k"]
    assert (read["line"], read["results"]) == (6, {"k": "f32, the shape varies"})
    assert "results" not in facts["return y"]


def test_a_write_of_several_entries_has_the_type_of_what_it_writes() -> None:
    text = """dynamic { x: f32[3, 2]; } persistent { p: i32; K(t): f32[2] @table; }
    block entry { cache.write x >> K[p..p+3]; return x; }"""
    executor = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), trace=True, echo=False).make_executor()
    executor.step(x=np.ones((3, 2), np.float32))
    document = oi.trace_to_perfetto(executor.trace(), program=executor.program)

    (results,) = [event["args"]["results"] for event in document["traceEvents"] if "results" in event.get("args", {})]
    assert results == {"K": "f32[3,2], 24 bytes"}


def test_nodes_that_were_not_timed_are_instants() -> None:
    simulator = oi.Simulator(oi.Model.from_arrays({}), oi.graph(PROGRAM), trace=True, timer=False, echo=False)
    executor = simulator.make_executor()
    executor.step(x=np.ones(2, np.float32), c=True)
    found = tracks(oi.trace_to_perfetto(executor.trace()))
    assert {event["ph"] for event in found["entry"] if event["name"].startswith("op ")} == {"i"}


def test_work_of_a_device_with_a_clock_is_a_track_of_its_own() -> None:
    by_host = events_of(PROGRAM, x=np.ones(2, np.float32), c=True)
    assert [name for name in tracks(oi.trace_to_perfetto(by_host)) if "device" in name] == []

    timed = [replace(each, device_start_ns=each.start_ns + 5) if each.op_name else each for each in by_host]
    found = tracks(oi.trace_to_perfetto(timed))

    assert list(found) == ["entry", "entry: device", "reader", "reader: device"]
    ran = [each for each in by_host if each.op_name and each.track == "entry"]
    assert [each["name"] for each in found["entry: device"]] == [each.node_desc for each in ran]
    assert [each["dur"] for each in found["entry: device"]] == [each.duration_ns / 1000 for each in ran]
    assert found["entry: device"][0]["ts"] == (ran[0].start_ns + 5) / 1000
    outline(found["entry: device"])
    assert outline(found["entry"]) == outline(tracks(oi.trace_to_perfetto(by_host))["entry"])


def test_control_characters_of_a_program_do_not_reach_the_page() -> None:
    text = "volatile { y: f32; } block entry { op exp(y) >> y; return; }"
    event = events_of(text)[0]
    odd = TraceEvent(kind=event.kind, node_index=0, node_uuid="", block_name="b", node_desc="a\x1b[2J", start_ns=1)
    assert "\x1b" not in json.dumps(oi.trace_to_perfetto([odd]), ensure_ascii=False)


def test_a_trace_without_times_is_refused() -> None:
    events = events_of(PROGRAM, x=np.ones(2, np.float32), c=True)
    from_file = trace_from_json(oi.trace_to_json(events))
    with pytest.raises(oi.SerializationError, match="no times"):
        oi.trace_to_perfetto(from_file)
    assert oi.trace_to_perfetto([])["traceEvents"][0]["name"] == "process_name"


statements = st.deferred(
    lambda: st.lists(
        st.sampled_from(["op neg(y) >> y;", "branch work;", "branch c work idle;", "barrier;", "branch c last idle;"])
        | st.tuples(st.integers(0, 3), statements).map(
            lambda pair: f"loop r (k{len(pair[1])} in 0..{pair[0]}) {{ {pair[1]} }}"
        ),
        max_size=4,
    ).map(" ".join)
)


@settings(max_examples=60, deadline=None)
@given(statements, st.booleans(), st.booleans())
def test_slices_of_any_program_nest_and_merging_does_not_change_them(body: str, flag: bool, merged: bool) -> None:
    text = f"""
    dynamic {{ c: bool; }} volatile {{ y: f32; }}
    block entry {{ {body} return; }}
    block work {{ op neg(y) >> y; branch last; }}
    block idle {{ return; }}
    block last {{ loop l (i in 0..2) {{ op neg(y) >> y; }} }}
    """
    found = tracks(oi.trace_to_perfetto(events_of(text, merged=merged, c=flag)))["entry"]
    other = tracks(oi.trace_to_perfetto(events_of(text, merged=not merged, c=flag)))["entry"]
    outline(found)
    assert names(found) == names(other)
    ran = [name for name in names(found) if not name.startswith(("block ", "loop r", "loop l", "k", "i ="))]
    assert ran.count("return") >= 1
    assert all(a["ts"] <= b["ts"] for a, b in pairwise(found))
