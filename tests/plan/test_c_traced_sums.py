"""Traced runs of the device c, node by node, compute the same sums in the same order as whole programs."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

PROGRAMS = {
    "a sum of a row": ("x: f32[3, 1000];", "y: f32[3];", "op sum_axis(x, axes=1) >> y;"),
    "a product": ("x: f32[24, 300]; w: f32[300, 40];", "y: f32[24, 40];", "op matmul(x, w) >> y;"),
    "products in a batch": ("x: f32[4, 9, 64]; w: f32[4, 64, 10];", "y: f32[4, 9, 10];", "op matmul(x, w) >> y;"),
    "a window": ("x: f32[1, 8, 12, 12]; w: f32[16, 8, 3, 3];", "y: f32[1, 16, 10, 10];", "op conv2d(x, w) >> y;"),
}


@pytest.mark.parametrize(("inputs", "output", "call"), PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_step_by_itself_has_the_bits_of_the_whole_program(inputs: str, output: str, call: str) -> None:
    program = graph(f"dynamic {{ {inputs} }} volatile {{ {output} }} block entry {{ {call} return; }}")
    rng = np.random.default_rng(5)
    given = {name: rng.normal(size=shape).astype(np.float32) for name, shape in _shapes(inputs)}
    found: list[bytes] = []
    for trace in (False, True):
        simulator = Simulator(oi.Model.from_arrays({}), program, device="c", trace=trace, echo=False)
        with simulator.make_executor() as executor:
            executor.insert(given)
            executor.step()
            found.append(np.asarray(executor.fetch("y")).tobytes())

    assert found[0] == found[1]


def _shapes(inputs: str) -> list[tuple[str, tuple[int, ...]]]:
    declared = [part.strip().split(":") for part in inputs.split(";") if part.strip()]
    return [(name, tuple(map(int, kind.split("[")[1].rstrip("]").split(",")))) for name, kind in declared]
