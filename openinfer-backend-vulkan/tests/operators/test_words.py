"""Elementwise operators whose invocations load and store 16 bytes: awkward sizes against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.compute.reading import parse_computation
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

if TYPE_CHECKING:
    from conftest import CarryOut

SUM = """
def sum(x: f32[{n}], w: f32[{n}], /, y: f32[{n}]):
    for i in grid({n}):
        y[i] = x[i] + w[i]
"""


def test_the_text_of_a_sum() -> None:
    (stage,) = shaders_of(parse_computation(SUM.format(n=4096)), ShaderTarget(group=1024, subgroup=32))

    source = stage.shaders[0].source
    assert "layout(local_size_x = 256) in;" in source
    assert "readonly buffer Buffer0w4 { uvec4 b_x_w4[]; };" in source
    assert (
        source[source.index("    int i_i") :]
        == """\
    int i_i = int(place);
    uvec4 w0 = b_x_w4[i_i];
    uvec4 w1 = b_w_w4[i_i];
    uint q2, q3, q4, q5;
    {
        precise float v6_0 = uintBitsToFloat(w0.x);
        precise float v6_1 = uintBitsToFloat(w1.x);
        precise float v6_2 = v6_0 + v6_1;
        q2 = floatBitsToUint(v6_2);
    }
    {
        precise float v7_0 = uintBitsToFloat(w0.y);
        precise float v7_1 = uintBitsToFloat(w1.y);
        precise float v7_2 = v7_0 + v7_1;
        q3 = floatBitsToUint(v7_2);
    }
    {
        precise float v8_0 = uintBitsToFloat(w0.z);
        precise float v8_1 = uintBitsToFloat(w1.z);
        precise float v8_2 = v8_0 + v8_1;
        q4 = floatBitsToUint(v8_2);
    }
    {
        precise float v9_0 = uintBitsToFloat(w0.w);
        precise float v9_1 = uintBitsToFloat(w1.w);
        precise float v9_2 = v9_0 + v9_1;
        q5 = floatBitsToUint(v9_2);
    }
    b_y_w4[i_i] = uvec4(q2, q3, q4, q5);
}
"""
    )


def test_one_shader_serves_all_sizes_that_are_whole_words_and_one_all_others() -> None:
    whole, more, odd, other = (shaders_of(parse_computation(SUM.format(n=n)))[0].shaders[0] for n in (8, 64, 9, 103))

    assert whole.source == more.source
    assert odd.source == other.source
    assert (odd.threads, other.threads) == (3, 26)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 63, 64, 257, 1031, 70_001])
@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8, np.int32, np.bool_, np.int16])
def test_any_number_of_elements(carry_out: CarryOut, count: int, kind: type[np.generic]) -> None:
    x = np.random.default_rng(count).integers(-9, 9, count).astype(kind)
    zero = np.zeros((), kind)

    assert (carry_out("where", x == zero, x, np.flip(x).copy()) == np.where(x == zero, x, np.flip(x))).all()


@pytest.mark.parametrize("shape", [(3, 8), (5, 7), (1, 1), (2, 3, 16), (257, 4)])
def test_rows_and_columns_that_are_stretched(carry_out: CarryOut, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    x, row, column = (rng.random(part, np.float32) for part in (shape, shape[-1:], (*shape[:-1], 1)))

    assert (carry_out("add", x, row) == x + row).all()
    assert (carry_out("mul", column, x) == column * x).all()
