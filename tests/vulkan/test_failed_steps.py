"""Steps that kernels end on device and target vulkan: what they leave is what they leave on cpu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")

PROGRAM = """
dynamic {{ x: f32[3]; at: i32[2]; }}
volatile {{ h: f32[3]; v: f32[3]; y: f32[2]; }}
persistent {{ m: i32; n: i64; p: f32[3] @init(1.0); K(t): f32[3] @table @fixed(t=4); A(i): f32[3] @auto_dim(i); }}
block entry {{
  {before}
  op gather(x, at) >> y;
  {after}
  return y;
}}
block worker {{
  await h;
  op neg(h) >> v;
  {worker}
  yield h;
}}
"""
STATEMENTS = {
    "increment": "cache.increment m;",
    "increment by memory": "cache.increment m n;",
    "write": "cache.write x >> p;",
    "write of an entry": "cache.write x >> K[n];",
    "reset": "cache.reset p;",
    "read that grows": "cache.read A[2] >> entry;",
    "loop": "loop turns (i in 0..3) { cache.increment m; cache.write x >> K[i]; }",
}
STATE = ("m", "p", "n", "K[]", "A[]")
HAND_OVER = "yield h; await h;"
GOOD, BAD = np.array([0, 2], np.int32), np.array([0, 7], np.int32)


def executor(device: str, before: str = "", after: str = "", worker: str = "") -> Executor:
    text = PROGRAM.format(before=before, after=after, worker=worker)
    found = simulator(text, device).make_executor()
    assert not found.runs_whole
    return found


def simulator(text: str, device: str, **options: Any) -> oi.Simulator:
    return oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device, **options)


def outcome(device: str, *indices: np.ndarray[Any, Any], **parts: str) -> list[object]:
    """Return what steps leave: the error of each, if any, and the state after it."""
    found: list[object] = []
    with executor(device, **parts) as running:
        for at in indices:
            failure = None
            try:
                running.step(x=np.arange(3, dtype=np.float32) + 1, at=at)
            except ExecutionError as error:
                failure = error.code, error.node_desc
            found += [failure, [np.asarray(running.fetch(name)).tolist() for name in STATE]]
    return found


@pytest.mark.rule("operators.indices.2", "runtime.memory.13")
@pytest.mark.parametrize("statement", STATEMENTS)
def test_no_state_changes_after_the_statement_at_fault(statement: str) -> None:
    parts = {"before": "cache.increment m;", "after": STATEMENTS[statement] + HAND_OVER}
    expected = outcome("cpu", GOOD, BAD, GOOD, **parts)
    assert expected[2] == ("out-of-range", "op gather(x,at) >> y")
    assert outcome("vulkan", GOOD, BAD, GOOD, **parts) == expected


@pytest.mark.parametrize("statement", ["increment", "write of an entry", "read that grows"])
def test_consumers_of_a_step_that_fails_change_nothing(statement: str) -> None:
    parts = {"after": HAND_OVER, "worker": STATEMENTS[statement]}
    assert outcome("vulkan", GOOD, BAD, GOOD, **parts) == outcome("cpu", GOOD, BAD, GOOD, **parts)


def test_a_consumer_ends_at_its_statement_at_fault() -> None:
    parts = {"before": HAND_OVER + "cache.increment n;", "worker": "op gather(h, at) >> z; cache.increment m;"}
    expected = outcome("cpu", GOOD, BAD, GOOD, **parts)
    assert expected[2] == ("out-of-range", "op gather(h,at) >> z")
    assert outcome("vulkan", GOOD, BAD, GOOD, **parts) == expected


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
def test_the_first_statement_at_fault_is_reported(device: str) -> None:
    after = "cache.read K[9] >> entry;" + HAND_OVER
    assert outcome(device, BAD, after=after)[0] == ("out-of-range", "op gather(x,at) >> y")


def test_a_fault_of_an_abandoned_step_is_not_that_of_a_later_one() -> None:
    with executor("vulkan", after="op neg(x) >> w;" + HAND_OVER + "cache.increment m;") as running:
        running.insert(x=np.ones(3, np.float32), at=BAD)
        for ran in running.iterate():
            if ran.event.op_name == "gather":
                break
        running.step(x=np.ones(3, np.float32), at=GOOD)
        assert running.fetch("m") == 1


@pytest.mark.parametrize("statement", ["cache.read A[2] >> entry; op add(entry, entry) >> more;", "cache.increment m;"])
def test_whole_programs_change_no_state_after_it_either(statement: str) -> None:
    text = PROGRAM[: PROGRAM.index("block worker")].format(before="", after=statement)
    states: list[list[object]] = []
    for device in ("cpu", "vulkan"):
        with simulator(text, device, limits={"A.i": 5}).make_executor() as running:
            assert running.runs_whole == (device == "vulkan")
            with pytest.raises(ExecutionError, match="out of range"):
                running.step(x=np.ones(3, np.float32), at=BAD)
            states.append([np.asarray(running.fetch(name)).tolist() for name in STATE])
    assert states[0] == states[1]


@pytest.mark.parametrize("statement", ["increment", "write", "write of an entry", "reset", "read that grows", "loop"])
def test_segments_of_a_bundle_end_before_state_changes(statement: str) -> None:
    """A segment runs to its end, so one that changes state may not come after a kernel that can refuse an element."""
    gather, change = "op gather(x, at) >> y;", STATEMENTS[statement]
    text = PROGRAM[: PROGRAM.index("block worker")].format(before="", after=change)
    reordered = text.replace(gather, "").replace(change, f"{change} {gather}")
    assert segments(text) == segments(reordered) + 1


def segments(text: str) -> int:
    synthesizer = oi.Synthesizer("vulkan", limits={"A.i": 5})
    source = synthesizer.synthesize(oi.Model.from_arrays({}), oi.graph(text)).bundle.files["model.c"]
    return source.count(b"status = model_run(model, inputs, ")
