"""Operators on the devices that hints name (`Simulator(..., placement=True)`), against the same program without."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import DeviceError
from openinfer.simulate import Executor, Simulator

OTHER = "c"

PROGRAM = f"""
dynamic {{ x: f32[2, 3]; go: bool @init(true); }}
constant {{ b: f32[3]; }}
volatile {{ W(l): f32[3, 3] @pattern("W.{{l}}"); y: f32[2, 3]; z: f32[2, 3]; }}
persistent {{ n: i32; }}
block entry {{
  assign h: f32[2, 3];
  op add(x, b) >> h with {{ placement = "{OTHER}" }};
  loop layers (l in 0..2) with {{ placement = "{OTHER}" }} {{
    op matmul(h, W[l]) >> h;
    cache.increment n;
  }}
  yield h;
  op relu(x) >> z;
  await h;
  branch last;
  return y;
}}
block consumer with {{ placement = "{OTHER}" }} {{ await h; op tanh(h) >> h; yield h; }}
block last with {{ placement = "{OTHER}" }} {{ op add(h, z) >> y; return; }}
"""
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32) / 4


def model() -> oi.Model:
    rng = np.random.default_rng(0)
    arrays = {"b": rng.normal(size=3).astype(np.float32)}
    return oi.Model.from_arrays(arrays | {f"W.{n}": rng.normal(size=(3, 3)).astype(np.float32) for n in range(2)})


def executor(*, placement: bool, trace: bool = False, source: str = PROGRAM) -> Executor:
    return Simulator(model(), graph(source), placement=placement, trace=trace, echo=False).make_executor()


@pytest.fixture
def other_device() -> str:
    try:
        Simulator(model(), device=OTHER)
    except DeviceError as error:
        pytest.skip(str(error))
    return OTHER


@pytest.mark.rule("runtime.devices.4")
def test_a_placed_program_computes_the_same(other_device: str) -> None:
    with executor(placement=True) as placed, executor(placement=False) as plain:
        for x in (X, -X):
            placed.step(x=x)
            plain.step(x=x)
            assert placed.fetch("y") == pytest.approx(plain.fetch("y"), abs=1e-6)
        assert placed.fetch("n") == plain.fetch("n") == 4


@pytest.mark.rule("runtime.devices.4")
def test_transfers_to_and_from_the_device_are_in_the_trace(other_device: str) -> None:
    with executor(placement=True, trace=True) as placed:
        placed.step(x=X)
        found = [(event.kind, event.node_desc) for event in placed.trace()]

    assert found[1:4] == [
        ("Transfer", f"transfer x >> {OTHER}:x"),
        ("OpExecute", "op add(x,b) >> h"),
        ("Transfer", f"transfer {OTHER}:h >> h"),
    ]
    assert found.count(("Transfer", f"transfer h >> {OTHER}:h")) == 4
    assert ("OpExecute", "op relu(x) >> z") in found


@pytest.mark.rule("language.hints.4", "runtime.devices.4")
def test_without_placement_hints_change_nothing() -> None:
    with executor(placement=False, trace=True) as plain:
        plain.step(x=X)
        assert all(event.kind != "Transfer" for event in plain.trace())


def test_a_device_that_is_not_there_is_an_error_when_placement_is_requested() -> None:
    source = PROGRAM.replace(f'"{OTHER}"', '"tpu"')

    with pytest.raises(DeviceError, match=r"`op add\(x,b\) >> h` in block `entry` is placed on `tpu`: .*tpu"):
        executor(placement=True, source=source)


def test_the_device_of_the_program_is_not_another_device() -> None:
    with executor(placement=True, trace=True, source=PROGRAM.replace(f'"{OTHER}"', '"cpu"')) as placed:
        placed.step(x=X)
        assert all(event.kind != "Transfer" for event in placed.trace())


@pytest.mark.rule("runtime.devices.4", "runtime.sizes.4")
def test_a_placed_operator_reads_a_prefix_table_in_steps_of_several_sizes(other_device: str) -> None:
    source = f"""
    dynamic {{ x: f32[T, 3]; }}
    volatile {{ W(l): f32[3, 3] @pattern("W.{{l}}"); y: f32[T, 3]; }}
    block entry {{ op matmul(x, W[1]) >> y with {{ placement = "{other_device}" }}; return y; }}
    """
    weight = np.arange(9, dtype=np.float32).reshape(3, 3)
    sized = oi.Model.from_arrays({"W.1": weight}, sizevars={"T": 2})
    with Simulator(sized, graph(source), placement=True).make_executor() as placed:
        for rows in (2, 3, 2):
            x = np.ones((rows, 3), np.float32)
            placed.step(x=x)
            np.testing.assert_array_equal(placed.fetch("y"), x @ weight)
