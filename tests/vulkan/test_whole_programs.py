"""Device vulkan runs whole programs with their state: few recorded submissions, results and errors as on cpu."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.diagnostics import Severity
from openinfer.errors import CacheIndexError, CacheLimitError, ExecutionError
from openinfer.plugins.environment import Environment
from openinfer.simulate.execute.whole_program import device_findings
from openinfer.validate.resolve import resolve

if TYPE_CHECKING:
    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")

LAYERS, WIDTH, ROOM = 3, 8, 6
DECODER = f"""
dynamic {{ x: f32[1, {WIDTH}]; }}
constant {{ W(l): f32[{WIDTH}, {WIDTH}] @pattern("w.{{l}}"); }}
volatile {{ z: f32[1, {WIDTH}]; }}
persistent {{ step: i32 @init(0); K(l, t): f16[{WIDTH}] @table @fixed(t={ROOM}); }}
block entry {{
  assign h: f32[1, {WIDTH}];
  assign row: f32[{WIDTH}];
  assign half: f16[{WIDTH}];
  assign keys: f16[1, {WIDTH}];
  transfer x >> h;
  loop layers (l in 0..{LAYERS}) {{
    op matmul(h, W[l]) >> h;
    op reshape(h) >> row;
    op cast(row, to=f16) >> half;
    cache.write half >> K[l, step];
    cache.read K[l, 0..step+1] >> keys;
    op cast(keys, to=f32) >> wide;
    op sum_axis(wide, axis=0, keepdims=true) >> h;
    op tanh(h) >> h;
  }}
  cache.increment step;
  transfer h >> z;
  return z;
}}
"""
RNG = np.random.default_rng(3)
WEIGHTS = {f"w.{layer}": RNG.normal(size=(WIDTH, WIDTH)).astype(np.float32) for layer in range(LAYERS)}
TOKENS = RNG.normal(size=(ROOM, 1, WIDTH)).astype(np.float32)


def executor(text: str, device: str = "vulkan", arrays: dict[str, Any] | None = None) -> Executor:
    return oi.Simulator(oi.Model.from_arrays(arrays or {}), oi.graph(text), device=device).make_executor()


def submissions(ex: Executor) -> int:
    """Return how many submissions there were on the device of an executor."""
    backend: Any = ex._backend
    return backend._queue.submissions


def by_hand(tokens: np.ndarray) -> list[np.ndarray]:
    """Return what the decoder makes of tokens, in NumPy."""
    rows: list[list[np.ndarray]] = [[] for _ in range(LAYERS)]
    found = []
    for h in tokens:
        for layer in range(LAYERS):
            rows[layer].append((h @ WEIGHTS[f"w.{layer}"]).astype(np.float16)[0])
            h = np.tanh(np.sum(rows[layer], axis=0, dtype=np.float32)[None])
        found.append(h)
    return found


def test_a_decoder_takes_one_submission_for_each_token() -> None:
    with executor(DECODER, arrays=WEIGHTS) as ex:
        assert ex.runs_whole
        for place, (token, expected) in enumerate(zip(TOKENS, by_hand(TOKENS), strict=True)):
            before = submissions(ex)
            ex.step(x=token)
            assert place == 0 or submissions(ex) == before + 1
            np.testing.assert_allclose(ex.fetch("z"), expected, atol=5e-3)
        assert ex.fetch("step") == ROOM
        assert ex.fetch("K[1]").shape == (ROOM, WIDTH)


def test_commands_are_recorded_for_the_first_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from openinfer_backend_vulkan.queue import commands

    recorded: list[int] = []
    record = commands._record
    monkeypatch.setattr(commands, "_record", lambda *args: (recorded.append(len(args[1])), record(*args)))
    with executor(DECODER, arrays=WEIGHTS) as ex:
        for token in TOKENS[:3]:
            ex.step(x=token)
        first = len(recorded)
        for token in TOKENS[3:]:
            ex.step(x=token)
    assert len(recorded) == first


def test_steps_whole_and_node_by_node_continue_one_another() -> None:
    with executor(DECODER, arrays=WEIGHTS) as ex:
        found = []
        for place, token in enumerate(TOKENS):
            ex.insert(x=token)
            if place % 3 == 1:
                list(ex.iterate())
            else:
                ex.step()
            found.append(ex.fetch("z"))
    np.testing.assert_allclose(found, by_hand(TOKENS), atol=5e-3)


def test_state_is_read_and_restored() -> None:
    with executor(DECODER, arrays=WEIGHTS) as ex:
        for token in TOKENS[:2]:
            ex.step(x=token)
        state = ex.snapshot()
        ex.step(x=TOKENS[2])
        once = ex.fetch("z")
        ex.restore(state)
        ex.step(x=TOKENS[2])
        assert ex.fetch("z").tobytes() == once.tobytes()
        ex.reset()
        ex.step(x=TOKENS[0])
        np.testing.assert_allclose(ex.fetch("z"), by_hand(TOKENS[:1])[0], atol=5e-3)


def test_a_cache_that_is_full_ends_the_step_at_its_statement() -> None:
    with executor(DECODER, arrays=WEIGHTS) as ex:
        for token in TOKENS:
            ex.step(x=token)
        with pytest.raises(CacheLimitError, match=f"index {ROOM} of `K`") as caught:
            ex.step(x=TOKENS[0])
        assert caught.value.node_desc is not None
        assert "cache.write" in caught.value.node_desc
        assert ex.fetch("step") == ROOM
        ex.reset()
        ex.step(x=TOKENS[0])
        assert ex.fetch("step") == 1


def test_operators_without_control_flow_are_one_submission() -> None:
    chain = " ".join(["op add(y, x) >> y; op mul(y, x) >> y;"] * 30)
    with executor(f"dynamic {{ x: f32[5]; }} volatile {{ y: f32[5]; }} block entry {{ {chain} return y; }}") as ex:
        x, y = np.float32([0.5, -0.5, 0.25, 1.0, 0.0]), np.zeros(5, np.float32)
        ex.step(x=x)
        before = submissions(ex)
        ex.step(x=x)
        assert submissions(ex) == before + 1
        for _ in range(30):
            y = (y + x) * x
        np.testing.assert_array_equal(ex.fetch("y"), y)


BRANCHING = """
dynamic { x: f32[4]; }
volatile { y: f32[4]; }
persistent { turns: u8 @init(250); }
block entry {
  assign total: f32; assign big: bool; assign one: f32;
  op sum(x) >> total;
  op gt(total, one) >> big;
  branch big twice half;
  cache.increment 3 turns;
  return y;
}
block twice { op add(x, x) >> y; return; }
block half { op neg(x) >> y; return; }
"""


def test_a_condition_that_a_kernel_computes_is_waited_for() -> None:
    with executor(BRANCHING) as ex:
        assert ex.runs_whole
        for total in (1.0, -1.0, 1.0):
            ex.step(x=np.full(4, total, np.float32))
            expected = 2 * total if total > 0 else -total
            np.testing.assert_array_equal(ex.fetch("y"), np.full(4, expected, np.float32))
        assert ex.fetch("turns") == (250 + 9) % 256


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_conditions_of_all_types_are_whether_the_element_is_zero(dtype: str) -> None:
    text = f"""
dynamic {{ x: {dtype}; }}
volatile {{ y: f32[2]; c: {dtype}; }}
block entry {{ op max(x, x) >> c; branch c yes no; return y; }}
block yes {{ op fill(y, value=1.0) >> y; return; }}
block no {{ op fill(y, value=2.0) >> y; return; }}
"""
    with executor(text) as ex:
        assert ex.runs_whole
        for value in (0, 1) if dtype == "i8" else (0.0, 0.25, float("nan")):
            ex.step(x=value)
            np.testing.assert_array_equal(ex.fetch("y"), np.full(2, 1 if value != 0 else 2, np.float32))


def test_an_index_that_is_out_of_range_is_reported_with_its_statement() -> None:
    text = """
dynamic { x: f32[3]; i: i32[2]; }
volatile { y: f32[2]; }
persistent { t: i64; }
block entry { op gather(x, i) >> y; cache.increment t; return y; }
"""
    with executor(text) as ex:
        assert ex.runs_whole
        with pytest.raises(ExecutionError, match="out of range") as caught:
            ex.step(x=np.ones(3, np.float32), i=np.int32([0, 9]))
        assert caught.value.node_desc is not None
        assert "gather" in caught.value.node_desc
        ex.step(x=np.ones(3, np.float32), i=np.int32([0, 2]))
        np.testing.assert_array_equal(ex.fetch("y"), np.ones(2, np.float32))


@pytest.mark.parametrize("dtype", ["i4", "i8", "f16", "f32", "i64", "bool", "t1"])
def test_caches_of_all_widths_store_and_read_ranges(dtype: str) -> None:
    text = f"""
dynamic {{ row: {dtype}[3]; p: i64; low: i64; high: i64; }}
volatile {{ y: {dtype}[1, 3]; }}
persistent {{ K(t): {dtype}[3] @table @fixed(t=7); t: i64; }}
block entry {{
  cache.write row >> K[p];
  cache.read K[low..high] >> y;
  cache.increment t;
  return y;
}}
"""
    rng = np.random.default_rng(5)
    with executor(text) as ex, executor(text, "cpu") as other:
        for p, low, high in [(0, 0, 1), (6, 1, 7), (3, 3, 3), (2, 0, 4), (6, 5, 7)]:
            row = rng.integers(0, 2, 3)
            values = {"row": [2 * v - 1 for v in row.tolist()] if dtype == "t1" else row.tolist()}
            for each in (ex, other):
                each.step(**values, p=p, low=low, high=high)
            np.testing.assert_array_equal(ex.fetch("y"), other.fetch("y"))
            np.testing.assert_array_equal(ex.fetch("K"), other.fetch("K"))


def test_growing_extents_are_stored_and_read() -> None:
    text = """
dynamic { x: f32[2, 3]; }
volatile { y: f32[2, 3]; total: f32; }
persistent { A(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=2, j=4); t: i64; }
block entry {
  assign n: i64;
  cache.read t >> n;
  cache.read A[n, n] >> y;
  op sum(y) >> total;
  cache.increment t;
  return total, y;
}
"""
    with executor(text) as ex, executor(text, "cpu") as other:
        for _ in range(3):
            ex.step(x=np.ones((2, 3), np.float32))
            other.step(x=np.ones((2, 3), np.float32))
            assert ex.fetch("y").shape == other.fetch("y").shape
            assert ex.fetch("total") == other.fetch("total")
        for each in (ex, other):
            with pytest.raises(CacheLimitError):
                each.step(x=np.ones((2, 3), np.float32))


def test_an_index_below_0_is_refused() -> None:
    text = """
dynamic { x: f32[2]; p: i64; }
volatile { y: f32; }
persistent { K(t): f32[2] @table @fixed(t=3); }
block entry { cache.write x >> K[p]; op sum(x) >> y; return y; }
"""
    with executor(text) as ex, pytest.raises(CacheIndexError):
        ex.step(x=np.ones(2, np.float32), p=-4)


def test_programs_with_consumers_run_node_by_node() -> None:
    text = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
block entry { yield x; await x; op add(x, x) >> y; return y; }
block other { await x; op neg(x) >> x; yield x; }
"""
    with executor(text) as ex:
        assert not ex.runs_whole
        ex.step(x=np.ones(2, np.float32))
        np.testing.assert_array_equal(ex.fetch("y"), np.full(2, -2, np.float32))


def test_what_does_not_fit_runs_node_by_node_and_the_check_says_why() -> None:
    text = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
persistent { t: i64; K(t): f32[2] @table; }
block entry { cache.write x >> K[t]; cache.increment t; op neg(x) >> y; return y; }
"""
    model = oi.Model.from_arrays({})
    resolved = resolve(oi.graph(text), model)

    (note,) = device_findings(resolved, model, "vulkan", Environment.default())

    assert note.severity is Severity.NOTE
    assert "vulkan runs the program node by node, which is slower: cache" in note.message
    with executor(text) as ex:
        assert not ex.runs_whole
        ex.step(x=np.ones(2, np.float32))
        np.testing.assert_array_equal(ex.fetch("y"), -np.ones(2, np.float32))
    with oi.Simulator(model, oi.graph(text), device="vulkan", limits={"t": 5}).make_executor() as ex:
        assert ex.runs_whole
        for number in range(5):
            ex.step(x=np.full(2, number, np.float32))
        np.testing.assert_array_equal(ex.fetch("K")[:, 0], np.arange(5))


def test_tracing_and_stepping_take_nodes_one_by_one() -> None:
    text = "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op neg(x) >> y; op exp(y) >> y; return y; }"
    model = oi.Model.from_arrays({})
    with oi.Simulator(model, oi.graph(text), device="vulkan", echo=False).with_trace().make_executor() as ex:
        assert not ex.runs_whole
        ex.step(x=np.zeros(2, np.float32))
        assert [event.op_name for event in ex.trace() if event.op_name] == ["neg", "exp"]
        np.testing.assert_array_equal(ex.fetch("y"), np.ones(2, np.float32))


@pytest.mark.parametrize("staging", ["", "1"])
def test_steps_that_are_started_return_the_results_of_their_own_step(
    monkeypatch: pytest.MonkeyPatch, staging: str
) -> None:
    monkeypatch.setenv("OPENINFER_VULKAN_STAGING", staging)
    with executor(DECODER, arrays=WEIGHTS) as ex:
        futures = [ex.step_async(x=token) for token in TOKENS]
        found = [future.result()["z"] for future in futures]
        assert all(future.done() for future in futures)
        np.testing.assert_allclose(found, by_hand(TOKENS), atol=5e-3)
        np.testing.assert_array_equal(ex.fetch("z"), found[-1])
        with pytest.raises(CacheLimitError):
            ex.step_async(x=TOKENS[0]).result()
        assert ex.fetch("step") == ROOM


def test_two_steps_are_under_way_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from openinfer_backend_vulkan.api.fences import Fence

    with executor(DECODER, arrays=WEIGHTS) as ex:
        for token in TOKENS[:2]:
            ex.step_async(x=token).result()
        waits: list[bool] = []
        wait = Fence.wait
        monkeypatch.setattr(Fence, "wait", lambda fence: (waits.append(fence._is_pending), wait(fence)))
        first, second = (ex.step_async(x=token) for token in TOKENS[2:4])
        assert not any(waits)
        np.testing.assert_allclose(second.result()["z"], by_hand(TOKENS)[3], atol=5e-3)
        np.testing.assert_allclose(first.result()["z"], by_hand(TOKENS)[2], atol=5e-3)


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_other_devices_have_run_a_started_step(device: str) -> None:
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    with executor(DECODER, device, WEIGHTS) as ex:
        futures = [ex.step_async(x=token) for token in TOKENS]
        found = [future.result()["z"] for future in futures]
        np.testing.assert_allclose(found, by_hand(TOKENS), atol=5e-3)
        failed = ex.step_async(x=TOKENS[0])
        for _ in range(2):
            with pytest.raises(ExecutionError):
                failed.result()


def test_long_loops_take_several_submissions_with_numbers_of_their_own() -> None:
    rounds = 700
    text = f"""
dynamic {{ x: i32[2]; }}
volatile {{ y: i32[2]; last: i32[1, 2]; }}
persistent {{ K(t): i32[2] @table @fixed(t={rounds}); n: i32; }}
block entry {{
  assign sum: i32[2]; assign m: i32;
  transfer x >> sum;
  loop turns (t in 0..{rounds}) {{
    cache.read n >> m;
    op add(sum, m) >> sum;
    cache.write sum >> K[t];
    cache.read K[t..t+1] >> last;
    cache.increment n;
  }}
  transfer sum >> y;
  return y, last;
}}
"""
    with executor(text) as ex:
        assert ex.runs_whole
        ex.step(x=np.int32([0, 5]))
        expected = np.cumsum(np.arange(rounds))[:, None] + [0, 5]
        np.testing.assert_array_equal(ex.fetch("y"), expected[-1])
        np.testing.assert_array_equal(ex.fetch("last"), expected[-1:])
        np.testing.assert_array_equal(ex.fetch("K"), expected)


def test_an_entry_of_a_table_that_a_kernel_chooses_is_waited_for() -> None:
    text = """
dynamic { x: f32[3]; }
constant { W(l): f32[3] @pattern("w.{l}"); }
volatile { y: f32[3]; }
persistent { n: i64; }
block entry {
  assign chosen: i64;
  op argmax_axis(x, axis=0) >> chosen;
  op mul(W[chosen], x) >> y;
  cache.increment n;
  return y;
}
"""
    arrays = {f"w.{index}": np.full(3, index + 1, np.float32) for index in range(3)}
    with executor(text, arrays=arrays) as ex:
        assert ex.runs_whole
        for place in (2, 0, 1):
            x = np.eye(3, dtype=np.float32)[place]
            ex.step(x=x)
            np.testing.assert_array_equal(ex.fetch("y"), x * (place + 1))
        assert ex.fetch("n") == 3


def test_state_moves_only_when_it_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    from openinfer_backend_vulkan.programs.program import DeviceProgram

    moved: list[str] = []
    for name in ("get", "set"):
        method = getattr(DeviceProgram, name)
        monkeypatch.setattr(DeviceProgram, name, lambda *args, n=name, m=method: (moved.append(n), m(*args))[1])
    with executor(DECODER, arrays=WEIGHTS) as ex:
        for token in TOKENS[:3]:
            ex.step(x=token)
            ex.fetch("z")
        assert moved == []
        assert ex.fetch("step") == 3
        assert moved == ["get"]


@pytest.mark.parametrize("columns", [24, 300, 4096])
def test_norms_carried_out_row_by_row_have_the_results_of_their_steps(columns: int) -> None:
    text = f"""
    dynamic {{ x: f32[5, {columns}]; w: f32[{columns}]; b: f32[{columns}]; }}
    volatile {{ y: f32[5, {columns}]; z: f32[5, {columns}]; }}
    block entry {{ op layer_norm(x, w, b) >> y; op rms_norm(y, w) >> y; op rms_norm(x) >> z; return y, z; }}
    """
    x, w, b = (RNG.normal(size=shape).astype(np.float32) for shape in ((5, columns), columns, columns))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * w + b

    with executor(text) as ex:
        ex.step(x=x, w=w, b=b)
        found = ex.outputs()

    root = np.sqrt((normed**2).mean(1, keepdims=True) + 1e-5)
    assert np.allclose(found["y"], normed / root * w, rtol=1e-4, atol=1e-4)
    assert np.allclose(found["z"], wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5), rtol=1e-4, atol=1e-4)
