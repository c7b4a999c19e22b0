"""Programs over many inputs on a local Ray cluster of two worker processes."""

from __future__ import annotations

import os
import signal
import time
from importlib.util import find_spec

import numpy as np
import pytest
from processes import until_ended

import openinfer as oi
from openinfer.batch.on_ray import Ray
from openinfer.testing.waiting import limit_s

if find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install 'openinfer-core[ray]'", allow_module_level=True)

PROGRAM = """
dynamic { x: f32[2]; }
volatile { w: f32[2]; y: f32[2]; }
persistent { n: i32; }
block entry { cache.increment n; op mul(x, w) >> y; return y, n; }
"""


def both(runner: Ray) -> list[int]:
    """Wait until both workers have started: one runs inputs as soon as it is ready, whatever the other does."""
    deadline = time.monotonic() + limit_s(60)
    while len(pids := runner.pids) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    return pids


def test_results_come_in_order_and_inputs_of_a_killed_worker_are_run_again() -> None:
    import ray

    model = oi.Model.from_arrays({"w": np.array([1, 10], np.float32)})
    inputs = [{"x": [float(index), 1.0]} if index != 5 else {"x": [1.0]} for index in range(12)]
    runner = Ray(2)
    found = oi.run_batch(model, oi.graph(PROGRAM), inputs, runner=runner, look_ahead=3)

    results = [next(found) for _ in range(4)]
    pids = both(runner)
    os.kill(pids[0], signal.SIGKILL)
    results += found

    assert len({os.getpid(), *pids}) == 3
    assert [index for index, _ in results] == list(range(12))
    failed = results.pop(5)[1]
    assert (type(failed), failed.code) == (oi.ShapeError, "insert-mismatch")
    assert [(o["y"].tolist(), o["n"]) for _, o in results] == [([i, 10.0], 1) for i in range(12) if i != 5]
    assert not ray.is_initialized()
    assert until_ended(pids, seconds=limit_s(10)) == []
