"""Where whole programs on device vulkan keep their values: tables of operators, inputs, counters, states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")
RNG = np.random.default_rng(3)


def executor(text: str, device: str = "vulkan") -> Executor:
    return oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device).make_executor()


@pytest.mark.parametrize("call", ['pad(x, pads=[1, 2, 0, 3], mode="edge")', "rope(x, p)"])
def test_operators_with_tables_of_their_own_agree_with_cpu(call: str) -> None:
    shape, result = ([4, 6], [5, 11]) if call.startswith("pad") else ([4, 6], [4, 6])
    declared = f"dynamic {{ x: f32{shape}; p: i64[4]; }} volatile {{ y: f32{result}; }}"
    text = f"{declared} block entry {{ op {call} >> y; return y; }}"
    x, p = RNG.normal(size=shape).astype(np.float32), np.int64([3, 0, 7, 1])
    with executor(text) as ex, executor(text, "cpu") as other:
        assert ex.runs_whole
        for each in (ex, other):
            each.step(x=x, p=p)
        np.testing.assert_allclose(ex.fetch("y"), other.fetch("y"), atol=1e-5)


@pytest.mark.parametrize("device", ["vulkan", "c"])
@pytest.mark.parametrize("state", ["", "persistent { n: i64; }"])
def test_an_input_that_the_program_writes_can_be_fetched(device: str, state: str) -> None:
    if device == "c":
        pytest.importorskip("openinfer_synth_c", reason="device c is not installed: openinfer-synth-c")
    counted = "cache.increment n;" if state else ""
    text = f"""
dynamic {{ x: f32[2]; }}
volatile {{ y: f32[2]; }}
{state}
block entry {{ op neg(x) >> x; op exp(x) >> y; {counted} return y; }}
"""
    with executor(text, device) as ex:
        ex.step(x=[1.0, 2.0])
        assert ex.fetch("x").tolist() == [-1.0, -2.0]
        np.testing.assert_allclose(ex.fetch("y"), np.exp([-1.0, -2.0]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_counters_of_floats_take_one_kernel_for_all_amounts(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    from openinfer_backend_vulkan.queue.pipelines import Pipelines

    text = f"""
dynamic {{ x: f32[2]; by: i64; }}
volatile {{ y: f32[2]; z: {dtype}; }}
persistent {{ n: {dtype} @init(0.5); }}
block entry {{
  cache.increment by n;
  cache.decrement by n;
  cache.increment by n;
  cache.decrement 2 n;
  cache.read n >> z;
  op neg(x) >> y;
  return y, z;
}}
"""
    made: list[object] = []
    pipeline = Pipelines.pipeline
    monkeypatch.setattr(Pipelines, "pipeline", lambda *args: (made.append(args[1]), pipeline(*args))[1])
    with executor(text) as ex, executor(text, "cpu") as other:
        assert ex.runs_whole
        before = len(made)
        for by in (3, 0, 70_001, 1, 1 << 20):
            for each in (ex, other):
                each.step(x=np.ones(2, np.float32), by=by)
            assert ex.fetch("z") == other.fetch("z")
        assert len(made) == before
        for each in (ex, other):
            with pytest.raises(ExecutionError, match="negative"):
                each.step(x=np.ones(2, np.float32), by=-1)


def test_what_is_read_of_a_state_may_lie_in_it() -> None:
    """The copy is not changed before the state is: it takes no memory of its own."""
    text = """
dynamic { x: f32[4]; n: i32; }
volatile { y: f32[1, 4]; }
persistent { s: f32[1, 4] @init(1.0); }
block entry {
  cache.read s >> now;
  op select(now, axis=0, index=0) >> row;
  loop again (i in 0..n) { op add(row, x) >> row; }
  op unsqueeze(row, axes=[0]) >> y;
  cache.write y >> s;
  return y;
}
"""
    with executor(text) as ex, executor(text, "cpu") as other:
        assert ex.runs_whole
        for _ in range(3):
            for each in (ex, other):
                each.step(x=np.float32([1, 2, 3, 4]), n=2)
            np.testing.assert_array_equal(ex.fetch("y"), other.fetch("y"))


@pytest.mark.parametrize(
    ("dtype", "call", "dims"),
    [
        ("i32", "broadcast_to(x, shape=[b * 4])", (12,)),
        ("i32", "broadcast_to(x, shape=[b, 2])", (3, 2)),
        ("i16", "broadcast_to(x, shape=[b, b])", (3, 3)),
        ("i32", "pad(row, pads=[0, b])", (4,)),
    ],
)
@pytest.mark.parametrize("result", ["z", "total"])
def test_shapes_whose_largest_has_no_room_run_node_by_node(
    dtype: str, call: str, dims: tuple[int, ...], result: str
) -> None:
    text = f"""
dynamic {{ x: f32; row: f32[1]; b: {dtype}; }}
block entry {{ op {call} >> z; op sum(z) >> total; return {result}; }}
"""
    with executor(text) as ex:
        assert not ex.runs_whole
        (reason,) = ex.node_by_node
        assert reason.code == "too-large"
        for b in (3, 0, 3):
            ex.step(x=0.5, row=[0.5], b=b)
        z = np.full(dims, 0.5)
        if call.startswith("pad"):
            z[1:] = 0
        np.testing.assert_array_equal(ex.outputs()[result], z if result == "z" else z.sum())
