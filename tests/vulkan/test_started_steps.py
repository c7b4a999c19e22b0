"""Steps that are started or refused on device vulkan: what closed executors say, and what failed steps leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import CacheLimitError, DeviceError, ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")


def executor(text: str, device: str = "vulkan") -> Executor:
    return oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device=device).make_executor()


ACCUMULATING = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
persistent { s: f32[2] @init(0.0); n: i32; }
block entry {
  assign t: f32[2];
  cache.read s >> t;
  op add(t, x) >> t;
  cache.write t >> s;
  cache.increment n;
  op neg(t) >> y;
  return y;
}
"""


@pytest.mark.parametrize(
    "request_of",
    [
        lambda ex: ex.step(),
        lambda ex: ex.step_async(),
        lambda ex: ex.fetch("s"),
        lambda ex: ex.fetch("n"),
        lambda ex: ex.fetch("y"),
        lambda ex: ex.outputs(),
        lambda ex: ex.snapshot(),
        lambda ex: ex.reset(),
        lambda ex: ex.wait(),
    ],
    ids=["step", "step_async", "state", "counter", "result", "outputs", "snapshot", "reset", "wait"],
)
def test_a_closed_executor_refuses_requests(request_of: Callable[[Executor], object]) -> None:
    ex = executor(ACCUMULATING)
    ex.step(x=np.ones(2, np.float32))
    ex.close()
    with pytest.raises(DeviceError, match="closed"):
        request_of(ex)


def test_results_of_started_steps_are_gone_when_the_executor_is_closed() -> None:
    ex = executor(ACCUMULATING)
    taken, left = (ex.step_async(x=np.ones(2, np.float32)) for _ in range(2))
    np.testing.assert_array_equal(taken.result()["y"], [-1.0, -1.0])
    ex.close()
    np.testing.assert_array_equal(taken.result()["y"], [-1.0, -1.0])
    with pytest.raises(DeviceError, match="closed"):
        left.result()


FAILING = """
dynamic { x: f32[3]; i: i64; p: i32[2]; }
volatile { y: f32[2]; }
persistent { K(t): f32[3] @table @fixed(t=2); n: i32; }
block entry {
  cache.increment n;
  op gather(x, p) >> y;
  cache.write x >> K[i];
  return y;
}
"""


@pytest.mark.parametrize("device", ["cpu", "vulkan"])
@pytest.mark.parametrize(
    ("entry", "places", "error"),
    [(2, [0, 1], CacheLimitError), (0, [0, 9], ExecutionError)],
    ids=["found by the host", "found by a kernel"],
)
def test_a_started_step_that_fails_leaves_no_outputs(
    device: str, entry: int, places: list[int], error: type[ExecutionError]
) -> None:
    with executor(FAILING, device) as ex:
        x, right = np.float32([1, 2, 3]), np.int32([2, 0])
        ex.step_async(x=x, i=0, p=right)
        failed = ex.step_async(x=x, i=entry, p=np.int32(places))
        assert failed.done()
        assert ex.outputs() == {}
        for _ in range(2):
            with pytest.raises(error):
                failed.result()
        assert ex.step_async(x=x, i=1, p=right).result()["y"].tolist() == [3.0, 1.0]
        assert ex.fetch("n") == 3


REFUSING = """
dynamic { at: i64[2]; x: f32[2]; }
constant { W: f32[4]; }
volatile { y: f32[2]; }
persistent { first: f32[2] @init(0.0); last: f32[2] @init(0.0); K(t): f32[2] @table @fixed(t=8); n: i32; }
block entry {
  cache.write x >> first;
  op gather(W, at, axis=0) >> y;
  cache.write x >> last;
  cache.write x >> K[0];
  cache.increment n;
  return y;
}
"""


@pytest.mark.rule("runtime.memory.13")
@pytest.mark.parametrize("device", ["cpu", "vulkan"])
@pytest.mark.parametrize(
    "run",
    [lambda ex, at, x: ex.step(at=at, x=x), lambda ex, at, x: ex.step_async(at=at, x=x).result()],
    ids=["step", "step_async"],
)
def test_nothing_changes_after_the_statement_that_refuses_an_index(
    device: str, run: Callable[[Executor, object, object], object]
) -> None:
    model = oi.Model.from_arrays({"W": np.arange(4, dtype=np.float32)})
    with oi.Simulator(model, oi.graph(REFUSING), device=device).make_executor() as ex:
        assert device == "cpu" or ex.runs_whole
        ex.step(at=np.array([0, 1]), x=np.full(2, 1.0, np.float32))
        with pytest.raises(ExecutionError, match="gather") as refused:
            run(ex, np.array([0, 9]), np.full(2, 5.0, np.float32))
        assert refused.value.code == "out-of-range"
        assert ex.fetch("first").tolist() == [5.0, 5.0]
        assert ex.fetch("last").tolist() == [1.0, 1.0]
        assert ex.fetch("K[0]").tolist() == [1.0, 1.0]
        assert ex.fetch("n") == 1
        ex.step(at=np.array([3, 2]), x=np.full(2, 7.0, np.float32))
        assert ex.fetch("y").tolist() == [3.0, 2.0]
        assert (ex.fetch("last").tolist(), ex.fetch("n")) == ([7.0, 7.0], 2)
