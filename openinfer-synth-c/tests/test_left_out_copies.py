"""Copies that generated C does without: dimensions of one place, and concatenations that products read in parts."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep, CopyStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

RANDOM = np.random.default_rng(0)

UNIT_DIMS = """
dynamic { x: f32[1, 8, 20, 1]; }
constant { w: f32[16, 8, 3, 1]; v: f32[16, 16, 3, 1]; u: f32[1, 16, 1]; }
volatile { largest: f32[1, 16]; }
block entry {
  op conv2d(x, w, padding=[1, 0, 1, 0]) >> image;
  op squeeze(image, axes=[3]) >> first;
  op add(first, u) >> begun;
  LAYERS
  op max_axis(row, axes=[2]) >> largest;
  return largest;
}
"""

LAYERS = {
    "to images and back": """
  op unsqueeze(begun, axes=[3]) >> again;
  op conv2d(again, v, padding=[1, 0, 1, 0]) >> other;
  op reshape(other, shape=[16, 20]) >> flat;
  op mul(flat, flat) >> square;
  op unsqueeze(square, axes=[0]) >> row;
""",
    "in a loop": """
  op relu(begun) >> row;
  loop layers (l in 0..3) {
    op unsqueeze(row, axes=[3]) >> again;
    op conv2d(again, v, padding=[1, 0, 1, 0]) >> other;
    op squeeze(other, axes=[3]) >> next;
    op relu(next) >> row;
  }
""",
    "read after it changed": """
  op squeeze(image, axes=[3]) >> old;
  op conv2d(image, v, padding=[1, 0, 1, 0]) >> image;
  op add(old, begun) >> more;
  op squeeze(image, axes=[3]) >> new;
  op add(new, more) >> row;
""",
}

REWRITTEN = """
dynamic { q: f32[3, 64]; new: f32[1, 64]; }
volatile { scores: f32[3, 65]; }
persistent { k(r): f32[64] @table @fixed(r=64); n: i32; }
block entry {
  cache.read k[0..64] >> past;
  op concat(past, new, axis=0) >> all;
  cache.read n >> at;
  cache.write new >> k[at..at+1];
  cache.increment n;
  op matmul(q, all, trans_b=true) >> scores;
  return scores;
}
"""

TWICE = """
dynamic { x: f32[1, 8, 20, 1]; }
constant { w: f32[16, 8, 3, 1]; }
volatile { products: f32[1, 16, 16]; }
block entry {
  op conv2d(x, w, padding=[1, 0, 1, 0]) >> image;
  op reshape(image, shape=[1, 16, 20]) >> rows;
  op matmul(rows, rows, trans_b=true) >> products;
  return products;
}
"""

PARTS = """
dynamic { q: f32[16, 3, 16]; past: f32[16, 30, 16]; k: f32[16, 2, 16]; m: f32[16, 3, 32]; }
volatile { scores: f32[16, 3, 32]; mixed: f32[16, 3, 16]; }
block entry {
  op concat(past, k, axis=1) >> keys;
  op matmul(q, keys, trans_b=true) >> raw;
  op add(raw, m) >> scores;
  MORE
}
"""


def numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def operators(text: str, arrays: dict[str, np.ndarray], **inputs: np.ndarray) -> list[str]:
    """Return the operators that C for this machine carries out, after comparing its results with the simulator's."""
    model, program = Model.from_arrays(arrays), graph(text)
    synthesis = Synthesizer("c", arch="host").synthesize(model, program)
    outputs = synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, inputs).outputs
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(**inputs)
        for name, array in outputs.items():
            expected = np.asarray(executor.fetch(name))
            np.testing.assert_allclose(array.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5, err_msg=name)
    steps = [step for procedure in synthesis.plan.procedures for step in walk(procedure.steps)]
    return [
        "copy" if isinstance(step, CopyStep) else step.op for step in steps if isinstance(step, ComputeStep | CopyStep)
    ]


@pytest.mark.parametrize(
    ("layers", "copies"), [("to images and back", 1), ("in a loop", 1), ("read after it changed", 4)]
)
def test_images_are_read_as_they_are(layers: str, copies: int) -> None:
    """Dimensions of one place come and go without a copy, unless the image changes before the last read."""
    arrays = {"w": numbers(16, 8, 3, 1), "v": numbers(16, 16, 3, 1) / 4, "u": numbers(1, 16, 1)}
    steps = operators(UNIT_DIMS.replace("LAYERS", LAYERS[layers]), arrays, x=numbers(1, 8, 20, 1))
    assert steps.count("copy") == copies, steps


@pytest.mark.parametrize(
    ("more", "is_left_out"),
    [("return scores;", True), ("op matmul(scores, keys) >> mixed; return scores, mixed;", False)],
    ids=["read by rows", "read by columns too"],
)
def test_products_read_the_parts_of_a_concatenation(more: str, is_left_out: bool) -> None:
    """Each row of the whole is a column of the result; a sum over all rows needs the whole."""
    shapes = {"q": (16, 3, 16), "past": (16, 30, 16), "k": (16, 2, 16), "m": (16, 3, 32)}
    inputs = {name: numbers(*shape) for name, shape in shapes.items()}
    steps = operators(PARTS.replace("MORE", more), {}, **inputs)
    assert ("concat" not in steps) == is_left_out, steps


def test_rows_of_a_cache_that_is_written_before_they_are_used_are_copied() -> None:
    """The products come after the write, which a view of the cache would show them."""
    assert "concat" in operators(REWRITTEN, {}, q=numbers(3, 64), new=numbers(1, 64))


def test_a_value_that_a_product_reads_twice_keeps_its_dimensions() -> None:
    operators(TWICE, {"w": numbers(16, 8, 3, 1)}, x=numbers(1, 8, 20, 1))
