"""Persistent memory and handing over are the same on every device; the device vulkan is compared with cpu."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator

TEXT = """
dynamic { q: f32[1, 2]; k: f32[2]; small: i4[3]; }
volatile { keys: f32[1, 2]; total: f32[1]; h: f32[2] @init(3.0); h2: f32[2]; packed: i4[1, 3]; m: f32[2, 2]; }
persistent {
  step: i64; low: i8 @init(126); K(l, t): f32[2] @table @fixed(l=2); P(i): i4[3] @table;
  A(i, j): f32[2, 2] @auto_dim(i, j) @init(2.0);
}
block entry {
  assign n: i64;
  cache.read step >> n;
  loop layers (l in 0..2) {
    cache.write k >> K[l, n];
    cache.read K[l, 0..n+1] >> keys;
    op transpose(keys, perm=[1, 0]) >> keys;
    op matmul(q, keys) >> keys;
    op sum_axis(keys, axes=[1]) >> total;
  }
  cache.write small >> P[n];
  cache.read P[] >> packed;
  cache.read A[n, 1] >> m;
  op add(m, m) >> m;
  cache.write m >> A;
  yield h;
  await h;
  cache.increment step;
  cache.increment low;
  return;
}
block writer { await h; op add(h, k) >> h; yield h; }
block reader { await h; op mul(h, k) >> h2; yield h; }
"""
NAMES = ("keys", "total", "h", "h2", "packed", "m", "K", "P", "A", "step", "low")


@pytest.fixture
def executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Executor, Executor]]:
    probing = pytest.importorskip("openinfer_backend_vulkan.api.probe", reason="the device vulkan is not installed")
    found = probing.probe()
    if not found.available:
        pytest.skip(f"no Vulkan device: {found.detail}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model, program = oi.Model.from_arrays({}), graph(TEXT)
    with (
        Simulator(model, program, device="cpu").make_executor() as host,
        Simulator(model, program, device="vulkan").make_executor() as device,
    ):
        yield host, device


@pytest.mark.rule("runtime.determinism.3")
def test_devices_agree_on_caches_and_consumers(executors: tuple[Executor, Executor]) -> None:
    host, device = executors
    rng = np.random.default_rng(3)
    for step in range(4):
        q, k = rng.normal(size=(1, 2)).astype(np.float32), rng.normal(size=2).astype(np.float32)
        for executor in executors:
            executor.step(q=q, k=k, small=[step, -step, 1])
        for name in NAMES:
            expected, found = (np.asarray(executor.fetch(name), np.float64) for executor in executors)
            np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=name)
    assert device.fetch("step", "low") == (4, -126)
    host.reset()
    host.restore(device.snapshot())
    assert host.fetch("A").tolist() == device.fetch("A").tolist()
