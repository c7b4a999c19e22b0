"""Steps of device vulkan that a signal ends: what was done up to there is kept once, and later steps go on from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")

LOGGING = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; }
persistent { K(t): f32[2] @table @fixed(t=9); n: i32; total: f32[2]; }
block entry {
  cache.read n >> m;
  cache.write x >> K[m];
  cache.increment n;
  op neg(x) >> y;
  cache.read total >> sum;
  op add(sum, x) >> sum;
  cache.write sum >> total;
  return y;
}
"""

GATHERING = """
dynamic { x: f32[3]; i: i32[2]; }
volatile { y: f32[2]; z: f32[3]; }
persistent { n: i32; }
block entry { op gather(x, i) >> y; op neg(x) >> z; cache.increment n; return y, z; }
"""


def executor(text: str) -> Executor:
    found = oi.Simulator(oi.Model.from_arrays({}), oi.graph(text), device="vulkan").make_executor()
    assert found.runs_whole
    return found


def interrupting(method: Callable[..., Any], *, call: int = 1, before: bool = False) -> Callable[..., Any]:
    """Return a method that raises KeyboardInterrupt in one of its calls, after or before it does its work."""
    calls = 0

    def run(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and before:
            raise KeyboardInterrupt
        found = method(*args)
        if calls == call:
            raise KeyboardInterrupt
        return found

    return run


@pytest.mark.parametrize("call", [3, 4, 5])
def test_what_an_interrupted_step_changed_before_is_kept(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    from openinfer_backend_vulkan.programs.machine import Machine

    with executor(LOGGING) as ex:
        ex.step(x=np.float32([1, 1]))
        with monkeypatch.context() as patch:
            patch.setattr(Machine, "add", interrupting(Machine.add, call=call))
            with pytest.raises(KeyboardInterrupt):
                ex.step(x=np.float32([2, 2]))
        for value in (3, 4, 5):
            ex.step_async(x=np.float32([value, value]))

        assert ex.fetch("n") == 5
        assert ex.fetch("K")[:5, 0].tolist() == [1, 2, 3, 4, 5]
        assert ex.fetch("total")[0] in (13, 15)


@pytest.mark.parametrize("before", [True, False])
def test_a_submission_that_is_interrupted_runs_once(monkeypatch: pytest.MonkeyPatch, *, before: bool) -> None:
    from openinfer_backend_vulkan.api.fences import Fence

    with executor(LOGGING) as ex:
        ex.step(x=np.float32([1, 1]))
        with monkeypatch.context() as patch:
            patch.setattr(Fence, "submit", interrupting(Fence.submit, before=before))
            with pytest.raises(KeyboardInterrupt):
                ex.step(x=np.float32([2, 2]))
        for value in (4, 8, 16):
            ex.step_async(x=np.float32([value, value]))

        assert ex.fetch("K")[:5, 0].tolist() == [1, 2, 4, 8, 16]
        assert ex.fetch("total").tolist() == [31, 31]


def test_what_kernels_refused_in_an_interrupted_step_is_not_an_error_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from openinfer_backend_vulkan.programs.machine import Machine

    with executor(GATHERING) as ex:
        x, right = np.float32([1, 2, 3]), np.int32([2, 0])
        ex.step(x=x, i=right)
        with monkeypatch.context() as patch:
            patch.setattr(Machine, "found_fault", interrupting(Machine.found_fault, call=2, before=True))
            with pytest.raises(KeyboardInterrupt):
                ex.step(x=x, i=np.int32([0, 7]))
        ex.step(x=x, i=right)
        assert ex.fetch("y").tolist() == [3, 1]
        with pytest.raises(ExecutionError, match="out of range"):
            ex.step(x=x, i=np.int32([0, 7]))
