"""Sizes that kernels of device vulkan count: the host waits for one only where it decides how to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer_backend_vulkan.queue.commands import CommandQueue

if TYPE_CHECKING:
    from openinfer.simulate import Executor

pytestmark = pytest.mark.usefixtures("vulkan")

Array = np.ndarray[Any, Any]

HEAD = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[T, 3]; }
persistent { K(t): f32 @table @fixed(t=200); length: i64; }
block entry {
  op gt(x, half) >> mask;
  op masked_select(x, mask) >> kept, n;
  BODY
  return n, total;
}
"""
ON_DEVICE = """op reshape(x, shape=[3 * T]) >> flat; op concat(kept, flat, kept, axis=0) >> all;
    op mul(all, all) >> squares; op sum_axis(squares, axes=[0]) >> total;"""
ON_HOST = """cache.read length >> at; cache.write kept >> K[at..at+n]; cache.increment n length;
    cache.read K[0..at+n] >> all; op sum_axis(all, axes=[0]) >> total;"""


def executor(device: str, body: str) -> Executor:
    text = HEAD.replace("BODY", body)
    return oi.Simulator(oi.Model.from_arrays({}, sizevars={"T": 4}), oi.graph(text), device).make_executor()


def steps() -> list[Array]:
    noise = np.random.default_rng(3).uniform(0, 1, (2, 4, 3)).astype(np.float32)
    return [noise[0], np.zeros((4, 3), np.float32), np.ones((4, 3), np.float32), noise[1]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Return a list with an item for each time that the host waits for the device."""
    made: list[None] = []
    synchronize = CommandQueue.synchronize

    def counting(queue: CommandQueue) -> None:
        made.append(None)
        synchronize(queue)

    monkeypatch.setattr(CommandQueue, "synchronize", counting)
    return made


def agree(body: str, waits: list[None]) -> list[int]:
    """Run steps on vulkan as on cpu; return how often the host waited in each."""
    counts: list[int] = []
    with executor("cpu", body) as expected, executor("vulkan", body) as found:
        assert found.runs_whole
        for x in steps():
            expected.step(x=x)
            before = len(waits)
            found.step(x=x)
            counts.append(len(waits) - before)
            outputs = found.outputs()
            assert outputs["n"] == (x > 0.5).sum()
            np.testing.assert_allclose(outputs["total"], expected.outputs()["total"], rtol=1e-5)
    return counts


def test_the_host_waits_for_no_count_but_for_refused_elements_at_the_end(waits: list[None]) -> None:
    assert agree(ON_DEVICE, waits) == [1, 1, 1, 1]


def test_the_host_waits_where_it_needs_a_count(waits: list[None]) -> None:
    assert min(agree(ON_HOST, waits)) > 1


LOOP = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[3, 4]; }
volatile { total: f32; }
block entry {
  op select(x, axis=0, index=0) >> row;
  op gt(row, half) >> mask;
  op masked_select(row, mask) >> kept;
  loop rows (i in 0..3) {
    op exp(kept) >> e;
    op select(x, axis=0, index=i) >> row;
    op gt(row, half) >> mask;
    op masked_select(row, mask) >> kept;
    op sum_axis(e, axes=[0]) >> sum;
    op add(total, sum) >> total;
  }
  return total;
}
"""


def test_a_size_of_the_last_iteration_is_not_that_of_the_next() -> None:
    with oi.Simulator(oi.Model.from_arrays({}), oi.graph(LOOP), "vulkan").make_executor() as running:
        assert running.runs_whole
        for x in np.random.default_rng(3).uniform(0, 1, (4, 3, 4)).astype(np.float32):
            running.step(x=x)
            sums = [np.exp(x[row][x[row] > 0.5]).sum() for row in (0, 0, 1)]
            np.testing.assert_allclose(running.outputs()["total"], np.sum(sums), rtol=1e-5)


PRODUCTS = """
constant { half: f32 @init(0.5); }
dynamic { x: f32[T, 3]; b: i8; }
block entry {
  op gt(x, half) >> mask;
  op masked_select(x, mask) >> kept;
  op reshape(kept, shape=[-1, 1]) >> column;
  op broadcast_to(half, shape=[1, b]) >> row;
  op mul(column, row) >> products;
  op sum(products) >> total;
  return total;
}
"""


def test_a_size_that_the_host_knows_leaves_the_other_of_a_shape_on_the_device(waits: list[None]) -> None:
    model = oi.Model.from_arrays({}, sizevars={"T": 4})
    counts: list[int] = []
    with oi.Simulator(model, oi.graph(PRODUCTS), "vulkan").make_executor() as running:
        assert running.runs_whole
        for b, x in enumerate(steps()):
            before = len(waits)
            running.step(x=x, b=b)
            counts.append(len(waits) - before)
            np.testing.assert_allclose(running.outputs()["total"], 0.5 * b * x[x > 0.5].sum(), rtol=1e-5)
    assert counts == [1, 1, 1, 1]
