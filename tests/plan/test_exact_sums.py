"""Sums of products of small integers are computed in f32 where that gives the same integers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openinfer as oi
from openinfer.arch import TargetInfo
from openinfer.compute.evaluate import evaluate
from openinfer.compute.exact_sums import in_floats, small_products
from openinfer.compute.reading import parse_computation
from openinfer.compute.text import computation_text
from openinfer.dsl import graph
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.model import ModelLoader
from openinfer.plan.steps import ComputeStep
from openinfer_oinf import OinfWriter

PRODUCT = """
def product(x: {x}[3, 24], w: i8[24, 20], z: {x}[()], s: f32[20], /, y: f32[3, 20]):
    for i, j in grid(3, 20):
        for r in unordered(24):
            total0 = start(i32(0))
            term0 = {image} * cast(w[r, j], i32)
            total0 = total0 + term0
        y[i, j] = cast(total0, f32) * s[j]
"""
PLAIN, LESS = "cast(x[i, r], i32)", "(cast(x[i, r], i32) - cast(z[()], i32))"


@pytest.mark.parametrize(("x", "low", "high"), [("u8", 0, 255), ("i8", -128, 127)])
@pytest.mark.parametrize(("image", "zero"), [(PLAIN, 0), (LESS, 77)])
def test_floats_give_the_sums_of_integers(x: str, low: int, high: int, image: str, zero: int) -> None:
    random = np.random.default_rng(3)
    kind = np.uint8 if low == 0 else np.int8
    rows = random.integers(low, high, (3, 24), endpoint=True).astype(kind)
    codes = random.integers(-128, 127, (24, 20), endpoint=True).astype(np.int8)
    rows[0], codes[:, 0] = (high, -128)
    computation = parse_computation(PRODUCT.format(x=x, image=image))
    (stage,) = computation.stages
    products = small_products(stage)
    assert products is not None
    changed = parse_computation(
        computation_text(
            type(computation)(computation.name, computation.inputs, computation.outputs, (in_floats(stage),))
        )
    )

    (found,) = evaluate(changed, [rows, codes, np.array(zero, kind), np.ones(20, np.float32)])
    kernel = lowered(changed, target=TargetInfo(vector_nbytes=32, fma=True))
    buffers = {"x": rows.reshape(-1), "w": codes.reshape(-1), "z": np.array([zero], kind), "s": np.ones(20, np.float32)}
    buffers["y"] = np.zeros(60, np.float32)
    interpret(kernel, buffers)

    expected = (rows.astype(int) - zero) @ codes.astype(int)
    assert (found == expected).all()
    assert (buffers["y"].reshape(3, 20) == expected).all()
    assert "start(0.0)" in computation_text(changed)
    assert verify(kernel).guarded == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("start(i32(0))", "start(i32(1))"),
        ("total0 + term0", "maximum(total0, term0)"),
        ("cast(total0, f32) * s[j]", "cast(total0 + i32(1), f32) * s[j]"),  # the integer itself has a user
    ],
)
def test_other_folds_stay(old: str, new: str) -> None:
    text = PRODUCT.format(x="u8", image=PLAIN)
    assert old in text

    assert small_products(parse_computation(text.replace(old, new)).stages[0]) is None


@pytest.mark.parametrize(("code", "is_exact"), [(127, False), (32, True)])
def test_weights_decide_whether_a_sum_is_exact(tmp_path: Path, code: int, is_exact: bool) -> None:
    """2048 terms of at most 255 times 32 stay below 2^24; with 127 they may not."""
    with OinfWriter(tmp_path / "m.oinf") as writer:
        writer.declare("w", "i8", (2048, 8))
        writer.write("w", np.full((2048, 8), code, np.int8))
    text = """
    dynamic { x: f32[1, 2048]; } constant { w: i8[2048, 8]; } volatile { y: f32[1, 8]; }
    block entry {
      op cast(x, to=u8) >> codes;
      op matmul_integer(codes, w) >> total;
      op cast(total, to=f32) >> y;
      return y;
    }
    """
    model = ModelLoader.open(tmp_path / "m.oinf")
    plan = oi.Synthesizer("c", arch="x86-64-v3").synthesize(model, graph(text)).plan
    steps = [step for step in plan.procedures[0].steps if isinstance(step, ComputeStep)]
    stages = [stage for step in steps for stage in step.computation.stages if stage.fold is not None]

    assert [stage.fold is not None and stage.fold.totals[0].dtype.is_float for stage in stages] == [is_exact]
