"""Low floats on this machine: their conversions bit by bit, and nets that are converted once and computed in f32."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

ALL = np.arange(1 << 16, dtype=np.uint16)


def bits_of(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}")


def quiet(narrow: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Return the bits of f32 in which a NaN has its sign and no further bits."""
    sign = np.signbit(wide).astype(np.uint32) << np.uint32(31)
    return np.where(np.isnan(wide), sign | np.uint32(0x7FC00000), bits_of(np.ascontiguousarray(narrow)))


@pytest.mark.parametrize("lanes", [16, 8, 4, 1])
def test_every_f16_is_widened_and_rounded_back(lanes: int) -> None:
    """Rows of as many elements as a vector has, a half, a quarter, and one."""
    x = ALL.view(np.float16).reshape(-1, lanes)
    rows = x.shape[0]
    # Ties, what rounds to infinity and to subnormals, and NaNs with bits at the low end alone.
    random = np.random.default_rng(0)
    drawn = random.integers(0, 1 << 32, 1 << 16, np.uint32)
    near = bits_of(x.astype(np.float32).reshape(-1)) + random.integers(-1, 2, 1 << 16).astype(np.uint32) * 0x1000
    z = np.where(random.random(1 << 16) < 0.5, drawn, near).astype(np.uint32).view(np.float32).reshape(-1, lanes)
    z[0, 0] = np.uint32(0x7F800001).view(np.float32)
    text = graph(f"""
    dynamic {{ x: f16[{rows}, {lanes}]; z: f32[{rows}, {lanes}]; }}
    volatile {{ wide: f32[{rows}, {lanes}]; narrow: f16[{rows}, {lanes}]; twice: f32[{rows}, {lanes}]; }}
    block entry {{
      op cast(x, to=f32) >> wide;
      op cast(z, to=f16) >> narrow;
      op cast(z, to=f16) >> half;
      op cast(half, to=f32) >> twice;
      return wide, narrow, twice;
    }}
    """)
    with Simulator(Model.from_arrays({}), text, device="c").make_executor() as executor:
        executor.step(x=x, z=z)
        wide, narrow, twice = (np.asarray(executor.fetch(name)) for name in ("wide", "narrow", "twice"))

    assert (bits_of(wide) == quiet(x.astype(np.float32), x.astype(np.float32))).all()
    with np.errstate(over="ignore"):
        rounded = z.astype(np.float16)
    sign = np.signbit(z).astype(np.uint16) << np.uint16(15)
    expected = np.where(np.isnan(z), sign | np.uint16(0x7E00), bits_of(rounded))
    assert (bits_of(narrow) == expected).all()
    assert (bits_of(twice) == quiet(rounded.astype(np.float32), z)).all()


NET = """
dynamic { image: DTYPE[1, 3, 9, 8]; }
constant { w: DTYPE[16, 3, 3, 3]; b: DTYPE[16]; d: DTYPE[16, 1, 3, 3]; p: DTYPE[24, 16, 1, 1]; m: DTYPE[24, 10]; }
volatile { out: DTYPE[1, 10]; map: DTYPE[1, 24, 9, 8]; }
block entry {
  op conv2d(image, w, b, padding=1) >> h;
  loop layers (l in 0..2) {
    op relu(h) >> a;
    op conv2d(a, d, padding=1, groups=16) >> h;
  }
  op conv2d(h, p) >> map;
  op global_avg_pool(map) >> pooled;
  op reshape(pooled, shape=[1, 24]) >> row;
  op matmul(row, m) >> out;
  return out, map;
}
"""


def small_numbers(dtype: type, *shape: int, of: int) -> np.ndarray:
    """Return multiples of 1/8, whose products and sums f32 has exactly, so that the order of sums does not matter."""
    return (np.random.default_rng(of).integers(-4, 5, shape) / 8).astype(dtype)


@pytest.mark.parametrize(
    ("name", "dtype", "arch"),
    [("f16", np.float16, "host"), ("bf16", ml_dtypes.bfloat16, "generic"), ("f16", np.float16, "cortex-m55")],
)
def test_nets_of_low_floats_have_the_bits_of_the_simulator(name: str, dtype: type, arch: str) -> None:
    """Each value is rounded as often as before: sums are exact, so that all bits are equal."""
    shapes = {"w": (16, 3, 3, 3), "b": (16,), "d": (16, 1, 3, 3), "p": (24, 16, 1, 1), "m": (24, 10)}
    arrays = {n: small_numbers(dtype, *shape, of=number) for number, (n, shape) in enumerate(shapes.items())}
    image = small_numbers(dtype, 1, 3, 9, 8, of=9)
    model, program = Model.from_arrays(arrays), graph(NET.replace("DTYPE", name))
    synthesis = Synthesizer("c", arch=arch).synthesize(model, program)
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(image=image)
        expected = {output: np.asarray(executor.fetch(output)) for output in ("map", "out")}

    # The memories of a microcontroller are too dear for values twice as wide.
    stored = {str(value.type.dtype) for value in synthesis.plan.values if value.name == "h"}
    assert stored == ({name} if arch == "cortex-m55" else {"f32"})
    if arch != "cortex-m55":
        outputs = synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, {"image": image}).outputs
        assert (bits_of(outputs["map"]).reshape(-1) == bits_of(expected["map"]).reshape(-1)).all()
        assert (bits_of(outputs["out"]).reshape(-1) == bits_of(expected["out"]).reshape(-1)).all()


def test_one_row_keeps_its_matrix_narrow() -> None:
    """The time of one token is that of the bytes of its matrices."""
    arrays = {"m": small_numbers(np.float16, 64, 48, of=1)}
    text = "dynamic { x: f16[ROWS, 64]; } constant { m: f16[64, 48]; } block entry { op matmul(x, m) >> y; return y; }"
    types = {}
    for rows in (1, 64):
        program = graph(text.replace("ROWS", str(rows)))
        plan = Synthesizer("c", arch="x86-64-v4").synthesize(Model.from_arrays(arrays), program).plan
        types[rows] = {str(weight.type.dtype) for weight in plan.weights}
    assert types == {1: {"f16"}, 64: {"f32"}}


READ_AGAIN = """
dynamic { image: bf16[1, 3, 9, 8]; }
constant { w: bf16[16, 3, 3, 3]; v: bf16[16, 3, 3, 3]; }
volatile { out: bf16[1, 16, 9, 8]; }
block entry {
  op conv2d(image, w, padding=1) >> out;
  loop layers (l in 0..3) {
    op conv2d(image, v, padding=1) >> more;
    op sub(out, more) >> out;
  }
  op conv2d(image, v, padding=1) >> last;
  op add(out, last) >> out;
  return out;
}
"""


def test_an_input_is_converted_once_for_all_that_read_it() -> None:
    arrays = {name: small_numbers(ml_dtypes.bfloat16, 16, 3, 3, 3, of=number) for number, name in enumerate("wv")}
    image = small_numbers(ml_dtypes.bfloat16, 1, 3, 9, 8, of=9)
    model, program = Model.from_arrays(arrays), graph(READ_AGAIN)
    synthesis = Synthesizer("c", arch="generic").synthesize(model, program)
    with Simulator(model, program, device="cpu").make_executor() as executor:
        executor.step(image=image)
        expected = np.asarray(executor.fetch("out"))

    (procedure,) = (procedure for procedure in synthesis.plan.procedures if procedure.name == "entry")
    assert [step.op for step in walk(procedure.steps) if isinstance(step, ComputeStep)].count("widen") == 1
    assert [step.op for step in procedure.steps if isinstance(step, ComputeStep)].count("widen") == 1
    outputs = synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, {"image": image}).outputs
    assert (bits_of(outputs["out"]).reshape(-1) == bits_of(expected).reshape(-1)).all()
