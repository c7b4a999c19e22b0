"""Which tensors of a stage are images, whose channels may lie innermost."""

from __future__ import annotations

import pytest

from openinfer.compute.reading import parse_computation
from openinfer.plan.layouts import slides

CONVOLUTION = """
def conv(x: f32[1, 3, 9, 9], w: f32[8, 3, 3, 3], r: f32[1, 8, 7, 7], /, y: f32[1, 8, 7, 7]):
    for n, o, i, j in grid(1, 8, 7, 7):
        for c, u, v in unordered(3, 3, 3):
            total0 = start(0.0)
            term0 = x[n, c, i + u, j + v] * w[o, c, u, v]
            total0 = total0 + term0
        y[n, o, i, j] = total0 + r[n, o, i, j]
"""

PRODUCT = """
def product(x: f32[1, 7, 7, 30], w: f32[30, 8], r: f32[1, 7, 7, 8], /, y: f32[1, 7, 7, 8]):
    for n, o, i, j in grid(1, 7, 7, 8):
        for k in unordered(30):
            total0 = start(0.0)
            term0 = x[n, o, i, k] * w[k, j]
            total0 = total0 + term0
        y[n, o, i, j] = total0 + r[n, o, i, j]
"""


@pytest.mark.parametrize(("text", "images"), [(CONVOLUTION, {"x", "r", "y"}), (PRODUCT, set[str]())])
def test_images_are_those_of_windows(text: str, images: set[str]) -> None:
    """What is added to a product of matrices has its rows and columns, and makes no image of the result."""
    computation = parse_computation(text)
    (stage,) = computation.stages
    tensors = (*computation.inputs, *computation.outputs)
    assert {tensor.name for tensor in tensors if slides(stage, tensor)} == images
