"""Convolutions written out as C: what the device cpu gives, also at borders and without an image."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import STEPS, assert_steps_agree, needs_gcc, noise, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

pytestmark = needs_gcc


def assert_agree(op, *calls, weights=lambda w: w):
    """Run calls (shapes of x and w, settings, shape of the result) in one program, on cpu and in C."""
    random = np.random.default_rng(0)
    dynamic, volatile, statements, inputs = "", "", "", {}
    for n, (x, w, settings, y) in enumerate(calls):
        dynamic += f"x{n}: f32{list(x)}; w{n}: f32{list(w)}; "
        volatile += f"y{n}: f32{list(y)}; "
        statements += f"op {op}(x{n}, w{n}, {settings}) >> y{n}; "
        inputs[f"x{n}"] = random.standard_normal(x).astype(np.float32)
        inputs[f"w{n}"] = weights(random.standard_normal(w).astype(np.float32))
    results = ", ".join(f"y{n}" for n in range(len(calls)))
    program = graph(
        f"dynamic {{ {dynamic} }} volatile {{ {volatile} }} block entry {{ {statements} return {results}; }}"
    )

    synthesis = Synthesizer("c").synthesize(Model.from_arrays({}), program)
    found = run_sanitised(synthesis, inputs)

    with Simulator(Model.from_arrays({}), program, device="cpu").make_executor() as executor:
        executor.step(**inputs)
        for name, array in found.items():
            difference = compare(name, executor.fetch(name), array)
            assert difference.within, difference


def test_an_image_of_padding_only():
    assert_agree(
        "conv2d",
        ((1, 2, 0, 3), (4, 2, 2, 2), "padding=[0, 0, 3, 1]", (1, 4, 2, 3)),
        ((1, 2, 3, 0), (4, 2, 2, 2), "padding=[0, 0, 0, 2]", (1, 4, 2, 1)),
        ((1, 2, 0, 0), (4, 2, 2, 2), "padding=1", (1, 4, 1, 1)),
        ((1, 0, 3, 3), (4, 0, 2, 2), "padding=1", (1, 4, 4, 4)),
    )


def test_kernels_without_taps():
    assert_agree(
        "conv2d",
        ((1, 2, 3, 3), (4, 2, 0, 0), "padding=1", (1, 4, 6, 6)),
        ((1, 1, 2, 3), (2, 1, 0, 3), "stride=2, dilation=[2, 1]", (1, 2, 2, 1)),
    )


def with_an_infinity(w):
    w[..., 0, 0] = np.inf
    return w


def test_padding_is_zeros_that_are_multiplied_on_every_side():
    assert_agree(
        "conv2d",
        ((1, 1, 3, 4), (2, 1, 3, 3), "padding=[2, 0, 0, 0]", (1, 2, 3, 2)),
        ((1, 1, 3, 4), (2, 1, 3, 3), "padding=[0, 2, 0, 0]", (1, 2, 1, 4)),
        ((1, 1, 3, 4), (2, 1, 3, 3), "padding=[0, 0, 2, 2]", (1, 2, 3, 4)),
        weights=with_an_infinity,
    )


def test_windows_that_span_long_rows():
    assert_agree("conv2d", ((1, 1, 2, 4000), (1, 1, 1, 3), "dilation=[1, 1800], stride=[1, 50]", (1, 1, 2, 8)))


TRANSPOSED = (
    ((2, 3, 4, 5), (3, 2, 3, 3), "stride=1", (2, 2, 6, 7)),
    ((1, 4, 3, 3), (4, 3, 2, 3), "stride=[2, 3], padding=[0, 1, 1, 0], output_padding=[1, 0], groups=2", (1, 6, 6, 8)),
    ((1, 2, 5, 4), (2, 1, 3, 2), "stride=[3, 2], dilation=[2, 3], padding=[4, 1]", (1, 1, 9, 8)),
    ((1, 2, 2, 2), (2, 1, 1, 1), "stride=4, output_padding=3", (1, 1, 8, 8)),
    ((1, 1, 3, 3), (1, 1, 4, 3), 'stride=2, padding="same_upper"', (1, 1, 6, 6)),
    ((1, 0, 2, 2), (0, 2, 2, 2), "stride=2", (1, 2, 4, 4)),
)


def test_transposed_windows():
    assert_agree("conv_transpose2d", *TRANSPOSED)


def test_nothing_is_multiplied_between_the_elements_of_a_transposed_convolution():
    assert_agree("conv_transpose2d", *TRANSPOSED, weights=with_an_infinity)


@pytest.mark.parametrize("image", ["k", "W[t]"])
def test_an_image_that_is_constant_has_a_border_too(image):
    text = f"""
    dynamic {{ t: i32; }}
    constant {{ k: f64[1, 3, 16]; w: f64[4, 3, 3]; W(l): f64[1, 3, 16] @pattern("W.{{l}}"); }}
    constant {{ B(l): f64[4] @pattern("B.{{l}}"); }}
    block entry {{ op conv1d({image}, w, padding=4, bias=B[t]) >> y; return y; }}
    """
    shapes = {f"{name}.{layer}": shape for name, shape in (("W", (1, 3, 16)), ("B", (4,))) for layer in range(2)}
    shapes |= {"k": (1, 3, 16), "w": (4, 3, 3)}
    arrays = {name: noise(*shape, dtype=np.float64) for name, shape in shapes.items()}
    assert_steps_agree(text, arrays, t=np.arange(STEPS, dtype=np.int32) % 2)
