"""Persistent memory on device c: kept by the program as it is shipped, equal to cpu, and readable between steps."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dsl import graph
from openinfer.errors import CacheIndexError, CacheLimitError, ExecutionError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.simulate.execute.whole_program import WholeStateProgram
from openinfer_synth_c.device import CBuffer, CDevice

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

DECODER = """
dynamic { x: f32[D]; }
volatile { y: f32[D]; seen: f32[D]; top: f32; }
persistent { n: i32; total: f32[D] @init(0.5); K(l, t): f32[D] @table @fixed(t=6);
  A(i): f32[2] @auto_dim(i) @fixed(i=9); }
block entry {
  loop layers (l in 0..2) { cache.write x >> K[l, n]; }
  cache.read K[1, 0..n + 1] >> all;
  op sum_axis(all, axes=[0]) >> y;
  cache.read total >> before;
  op add(before, x) >> seen;
  cache.write seen >> total;
  cache.increment n;
  cache.read A[n] >> row;
  op add(row, top) >> row;
  cache.write row >> A;
  return y;
}
"""


def executors(text=DECODER, sizes=None, **more):
    model = Model.from_arrays({}, sizevars={"D": 3} if sizes is None else sizes)
    return [Simulator(model, graph(text), device=device, **more).make_executor() for device in ("cpu", "c")]


def noise(*shape, seed=0):
    """Return numbers of which sums cancel nothing, so that their order shows in the last digits only."""
    return np.random.default_rng(seed).uniform(0.1, 1, shape).astype(np.float32)


@pytest.fixture
def runs(monkeypatch):
    """Count the steps that the device runs whole."""
    found = []
    original = WholeStateProgram.run

    def run(self):
        done = original(self)
        found.append(done)
        return done

    monkeypatch.setattr(WholeStateProgram, "run", run)
    return found


def assert_equal(cpu, c, *names):
    for name in names:
        np.testing.assert_allclose(cpu.fetch(name), c.fetch(name), rtol=1e-6, err_msg=name)


def test_steps_and_what_they_keep_are_those_of_cpu(runs):
    cpu, c = executors()

    for x in noise(5, 3):
        cpu.step(x=x)
        c.step(x=x)
        assert_equal(cpu, c, "y", "seen", "top", "n", "total", "K", "K[1, 0..]", "A")
        assert cpu.type_of("A") == c.type_of("A")

    assert runs == [True] * 5


def test_state_goes_from_one_device_to_the_other_and_back(runs):
    cpu, c = executors()
    for x in noise(3, 3):
        c.step(x=x)
    cpu.restore(c.snapshot())
    assert_equal(cpu, c, "n", "total", "K", "A")

    x = noise(3, seed=1)
    cpu.step(x=x)
    c.reset()
    assert c.fetch("n") == 0
    c.restore(cpu.snapshot())
    for device in (cpu, c):
        device.step(x=x)

    assert_equal(cpu, c, "y", "seen", "n", "total", "K", "A")
    assert runs == [True] * 4


def test_a_step_that_somebody_looks_into_goes_on_from_the_whole_ones():
    cpu, c = executors()
    for number, x in enumerate(noise(5, 3)):
        cpu.step(x=x)
        if number in (1, 3):
            c.insert(x=x)
            assert [run.event.kind for run in c.iterate()].count("CacheIncrement") == 1
        else:
            c.step(x=x)
        assert_equal(cpu, c, "y", "n", "total", "K", "A")


def test_an_access_past_a_bound_names_its_statement_and_keeps_what_came_before(runs):
    cpu, c = executors()
    for x in noise(6, 3):
        cpu.step(x=x)
        c.step(x=x)

    errors = []
    for device in (cpu, c):
        with pytest.raises(CacheLimitError) as caught:
            device.step(x=noise(3))
        errors.append(caught.value)

    assert errors[0].node_index == errors[1].node_index
    assert (errors[0].block, errors[0].node_desc) == (errors[1].block, errors[1].node_desc)
    assert_equal(cpu, c, "n", "total", "K", "A")
    assert runs == [True] * 6


def test_faults_of_operators_and_indices_have_their_statements():
    text = """
    dynamic { at: i64; x: f32[3]; }
    volatile { y: f32; }
    persistent { calls: i32; K(t): f32 @table @fixed(t=4); }
    block entry {
      cache.increment calls;
      op gather(x, at) >> y;
      branch store;
      return y;
    }
    block store { cache.write y >> K[2 - at]; return; }
    """
    cpu, c = executors(text)
    for at, kind in ((0, None), (7, ExecutionError), (2, None), (-1, None)):
        found = []
        for device in (cpu, c):
            try:
                device.step(at=np.array(at, np.int64), x=noise(3))
                found.append(None)
            except ExecutionError as error:
                found.append((type(error), error.block, error.node_index))
        assert found[0] == found[1]
        assert (found[0] is None) == (kind is None)
        assert_equal(cpu, c, "calls", "K[0..4]")


def test_a_negative_index_is_the_same_error():
    text = """
    dynamic { at: i32; }
    volatile { y: f32; }
    persistent { K(t): f32 @table @fixed(t=4); }
    block entry { cache.read K[at] >> y; return y; }
    """
    cpu, c = executors(text)
    for device in (cpu, c):
        with pytest.raises(CacheIndexError):
            device.step(at=np.array(-1, np.int32))


def test_state_is_one_for_all_sizes_of_steps():
    text = """
    dynamic { x: f32[T, D]; }
    volatile { y: f32[D]; }
    persistent { n: i32; sum: f32[D]; }
    block entry {
      op sum_axis(x, axes=[0]) >> part;
      cache.read sum >> before;
      op add(before, part) >> y;
      cache.write y >> sum;
      cache.increment n;
      return y;
    }
    """
    cpu, c = executors(text, {"D": 3, "T": 2})
    for rows in (2, 5, 2, 1, 5):
        x = noise(rows, 3, seed=rows)
        cpu.step(x=x)
        c.step(x=x)
        assert_equal(cpu, c, "y", "n", "sum")


GROWING = DECODER.replace(" @fixed(t=6)", "")


@pytest.mark.parametrize(("limits", "count"), [({}, 0), ({"t": 20}, 8)])
def test_a_cache_without_a_bound_is_run_node_by_node_unless_a_limit_is_given(limits, count, runs):
    cpu, c = executors(GROWING, limits=limits)

    for x in noise(8, 3):
        cpu.step(x=x)
        c.step(x=x)
        assert_equal(cpu, c, "y", "K", "A")

    assert len(runs) == count


def test_a_state_that_has_grown_past_the_limit_is_refused():
    cpu, c = executors(GROWING, limits={"t": 4})
    for x in noise(6, 3):
        cpu.step(x=x)
    c.restore(cpu.snapshot())

    with pytest.raises(CacheLimitError, match=r"`K` has the extents \[2, 6, 3\], the program has room for \[2, 4, 3\]"):
        c.step(x=noise(3))


def test_resets_of_single_entries_are_followed_node_by_node(runs):
    text = """
    dynamic { x: f32; }
    volatile { y: f32; }
    persistent { n: i32; K(t): f32 @table @fixed(t=9); }
    block entry {
      cache.write x >> K[n];
      cache.reset K[n - n % 2];
      cache.read K[] >> all;
      op sum_axis(all) >> y;
      cache.increment n;
      return y;
    }
    """
    cpu, c = executors(text)
    for x in noise(5):
        cpu.step(x=x)
        c.step(x=x)
        assert_equal(cpu, c, "y", "K[0..9]")
    assert runs == []


def test_results_with_a_shape_of_run_time_have_it():
    text = """
    dynamic { x: f32[2]; }
    volatile { some: f32[1, 2]; }
    persistent { n: i32; K(t): f32[2] @table @fixed(t=9); }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> some;
      op add(some, x) >> some;
      return some;
    }
    """
    cpu, c = executors(text)
    for number, x in enumerate(noise(5, 2), 1):
        cpu.step(x=x)
        c.step(x=x)
        assert c.fetch("some").shape == (number, 2)
        assert_equal(cpu, c, "some")
        np.testing.assert_array_equal(c.outputs()["some"], c.fetch("some"))


def test_a_step_of_sizes_below_their_limits_touches_nothing_behind_its_arrays(monkeypatch):
    text = """
    dynamic { x: f32[T]; }
    volatile { y: f32[T, T]; }
    persistent { n: i32; }
    block entry {
      cache.increment n;
      loop turns (i in T..3) { op add(x, y) >> y; }
      return y;
    }
    """
    behind = []

    def allocate(self, type):
        room = np.full(type.count + 64, 7, storage_dtype(type.dtype))
        behind.append(room[type.count :])
        return CBuffer(type, room[: type.count].reshape(type.shape))

    monkeypatch.setattr(CDevice, "allocate", allocate)
    cpu, c = executors(text, {"T": 1}, limits={"T": 6})
    for length in (2, 4, 6, 1):
        cpu.step(x=noise(length))
        c.step(x=noise(length))
        assert_equal(cpu, c, "y", "n")
    assert all((rest == 7).all() for rest in behind)
