"""Tables and growing matrices of packed types: odd lengths, so that elements share bytes with their neighbours."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator

PROGRAM = """
dynamic { x: DTYPE[3]; i: i64; n: i64; }
volatile { one: DTYPE[3]; rows: DTYPE[1, 3]; grown: DTYPE[3]; }
persistent { K(k): DTYPE[3] @table; A(m): DTYPE[3] @auto_dim(m); }
block entry {
  cache.write x >> K[i]; cache.read K[i] >> one; cache.read K[0..n] >> rows; cache.read A[n] >> grown; return;
}
"""
RANGES = {"i4": (-8, 7), "u4": (0, 15), "i2": (-2, 1), "u2": (0, 3), "i1": (-1, 0), "u1": (0, 1), "t2": (-1, 1)}


def executor(dtype: str) -> Executor:
    return Simulator(oi.Model.from_arrays({}), graph(PROGRAM.replace("DTYPE", dtype))).make_executor()


@pytest.mark.rule("runtime.caches.13")
@pytest.mark.parametrize("dtype", RANGES)
def test_packed_entries_and_ranges_come_back_whole(dtype: str) -> None:
    low, high = RANGES[dtype]
    host = np.int8 if low < 0 else np.uint8
    ex, generator, kept = executor(dtype), np.random.default_rng(1), {}
    for n in range(7):
        x, i = generator.integers(low, high, 3, endpoint=True).astype(host), int(generator.integers(0, 5))
        kept[i] = x.tolist()
        ex.step(x=x, i=i, n=n)
        assert ex.fetch("one").tolist() == kept[i]
        assert ex.fetch("rows").tolist() == [kept.get(k, [0, 0, 0]) for k in range(n)]
        assert ex.fetch("grown").tolist() == [0] * (3 + n)
    assert ex.fetch("K").tolist() == [kept.get(k, [0, 0, 0]) for k in range(1 + max(kept))]


@pytest.mark.rule("runtime.host.5")
@pytest.mark.parametrize("dtype", RANGES)
def test_the_type_of_packed_values_is_theirs_and_not_that_of_the_array(dtype: str) -> None:
    ex = executor(dtype)
    ex.step(x=[0, 0, 0], i=2, n=2)
    for access in ("K", "K[2]", "K[0..2]", "rows", "A"):
        assert ex.fetch(access, dtype=dtype) is not None
        with pytest.raises(oi.DTypeError, match=f"is {dtype}, requested as i8"):
            ex.fetch(access, dtype="i8")
    assert (ex.fetch_raw("rows").dtype.name, ex.fetch_raw("rows").shape) == (dtype, (2, 3))


def test_packed_state_is_saved_and_restored(tmp_path) -> None:
    ex = executor("i4")
    for i in range(3):
        ex.step(x=[i - 2, -8, 7], i=i, n=i)
    path = tmp_path / "state.oinf"
    ex.snapshot().save(path)
    other = executor("i4")
    other.restore(path)
    assert other.fetch("K").tolist() == [[-2, -8, 7], [-1, -8, 7], [0, -8, 7]]
    assert other.fetch("A").shape == (5,)
