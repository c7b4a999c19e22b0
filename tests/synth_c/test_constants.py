"""Programs whose constants are computed in advance: target c and device c give what device cpu does."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

Array = npt.NDArray[Any]


PROGRAM = """
dynamic { image: f32[1, 6, 5, 5]; x: f32[4, 10]; flag: bool; }
constant {
  gamma: f32[6]; beta: f32[6]; mean: f32[6]; var: f32[6]; line: f32[1, 6, 20];
  w: f32[12, 10]; positions: f32[4, 1]; rates: f32[1, 10]; half: f16[10]; small: i8[10]; eps: f32[];
}
volatile { total: f32[4, 12]; normed: f32[1, 6, 5, 5]; scaled: f32[4, 10]; shares: f32[1, 20]; }
block entry {
  op batch_norm(image, gamma, beta, mean, var) >> normed;
  op transpose(w, perm=[1, 0]) >> wt;
  op mul(positions, rates) >> angles;
  op sin(angles) >> sines;
  op cos(angles) >> cosines;
  op mul(x, sines) >> a;
  op mul(x, cosines) >> b;
  op matmul(a, wt) >> product;
  op add(total, product) >> total;
  branch flag more less;
  op cast(half, to=f32) >> wide;
  op cast(small, to=f32) >> numbers;
  op mul(wide, numbers) >> scale;
  op mul(b, scale) >> scaled;
  op sum_axis(line, axis=[1]) >> column;
  op softmax(column) >> shares;
  return normed, total, scaled, shares;
}
block more {
  op exp(w) >> e;
  op mean_axis(e, axis=[1]) >> m;
  op reshape(m, shape=[1, 12]) >> r;
  op add(total, r) >> total;
}
block less { op expand(eps, shape=[4, 12]) >> wall; op sub(total, wall) >> total; }
"""


def arrays() -> dict[str, Array]:
    rng = np.random.default_rng(4)
    shapes = {
        **dict.fromkeys(("gamma", "beta", "mean", "var"), (6,)),
        "line": (1, 6, 20),
        "w": (12, 10),
        "eps": (),
    }
    found: dict[str, Array] = {name: np.asarray(rng.random(shape) + 0.1, np.float32) for name, shape in shapes.items()}
    found["positions"] = np.arange(4, dtype=np.float32)[:, None]
    found["rates"] = np.float32(0.5) ** np.arange(10, dtype=np.float32)[None]
    found["half"] = rng.random(10).astype(np.float16)
    found["small"] = rng.integers(-9, 9, 10).astype(np.int8)
    return found


@needs_gcc
@pytest.mark.parametrize("flag", [False, True])
def test_every_device_gives_what_cpu_computes_step_by_step(flag: bool) -> None:
    model, rng = Model.from_arrays(arrays()), np.random.default_rng(9)
    inputs: dict[str, Array] = {
        "image": rng.standard_normal((1, 6, 5, 5)).astype(np.float32),
        "x": rng.standard_normal((4, 10)).astype(np.float32),
        "flag": np.asarray(flag),
    }
    synthesis = Synthesizer("c").synthesize(model, graph(PROGRAM))
    written = run_sanitised(synthesis, inputs)
    with (
        Simulator(model, graph(PROGRAM), device="cpu").make_executor() as cpu,
        Simulator(model, graph(PROGRAM), device="c").make_executor() as c,
    ):
        cpu.step(**inputs)
        c.step(**inputs)

        computed = {weight.source for weight in synthesis.plan.weights if weight.ops}
        assert {"wt", "sines", "cosines", "r", "shares.constant"} <= computed
        for name, array in written.items():
            expected = np.asarray(cpu.fetch(name))
            np.testing.assert_allclose(array, expected, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(np.asarray(c.fetch(name)), expected, rtol=2e-5, atol=2e-6)


@needs_gcc
def test_every_constant_result_of_an_operator_is_copied_to_the_caller() -> None:
    text = """
    constant { w: f32[3, 4]; }
    volatile { a: f32[1, 4]; b: f32[1, 4]; c: f32[1, 4]; }
    block entry { op split(w, parts=3) >> a, b, c; return a, b, c; }
    """
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    synthesis = Synthesizer("c").synthesize(Model.from_arrays({"w": w}), graph(text))

    found = run_sanitised(synthesis, {})

    np.testing.assert_array_equal(np.concatenate([found["a"], found["b"], found["c"]]), w)


@needs_gcc
def test_a_constant_that_is_transferred_to_an_input_takes_the_place_of_what_the_caller_gives() -> None:
    text = """
    dynamic { x: f32[4]; }
    constant { k: f32[4]; }
    volatile { y: f32[4]; }
    block entry { transfer k >> x; op identity(x) >> y; return y; }
    """
    k = np.arange(4, dtype=np.float32)

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({"k": k}), graph(text))
    found = synthesis.run({"x": np.full(4, 9, np.float32)}).outputs["y"]

    assert found.tolist() == k.tolist()


def test_thousands_of_constants_that_follow_from_one_another_are_computed() -> None:
    many = "".join(f"v{i}: f32[3]; " for i in range(2000))
    work = "".join(f"op cumsum(v{i}, axis=0) >> v{i + 1}; " for i in range(1999))

    plan = Synthesizer("c").plan(
        Model.from_arrays({}), graph(f"volatile {{ {many} }} block entry {{ {work} return v1999; }}")
    )

    assert [weight.ops for weight in plan.weights] == [("cumsum",)]
