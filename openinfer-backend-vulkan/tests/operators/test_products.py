"""Products in tiles of shared memory, as devices with many cores carry them out: the device's results against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.compute.reading import parse_computation
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

if TYPE_CHECKING:
    from conftest import CarryOut

    Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("many_cores")

PRODUCT = """
def product(a: f32[{m}, {k}], b: f32[{k}, {n}], /, y: f32[{m}, {n}]):
    for i, j in grid({m}, {n}):
        for k in unordered({k}):
            total0 = start(0.0)
            term0 = a[i, k] * b[k, j]
            total0 = total0 + term0
        y[i, j] = total0
"""


def source(m: int, k: int, n: int) -> str:
    """Return the shader of a product for a GPU."""
    target = ShaderTarget(group=1024, subgroup=32, shared_nbytes=49152)
    (stage,) = shaders_of(parse_computation(PRODUCT.format(m=m, k=k, n=n)), target)
    return stage.shaders[0].source


def test_one_shader_serves_products_of_all_sizes_that_fill_its_tiles() -> None:
    assert source(4096, 4096, 4096) == source(2048, 3072, 2560)
    assert source(4096, 4096, 4096) != source(4095, 4096, 4096)


def test_slabs_are_vectors_and_the_next_one_is_on_its_way() -> None:
    text = source(4096, 4096, 4096)

    assert "shared vec4 b_left_slab0[528];" in text
    assert text.count("barrier();") == 2
    loads, factors = text.index("if (i_slab0 + n"), text.index("[[unroll]] for (int i_term0")
    assert text.index("barrier();") < loads < factors
    assert "precise float v22_3 = fma(v22_0, v22_1, v22_2);" in text


def small(*shape: int, kind: type[np.generic] = np.float32) -> Array:
    """Return small integers, whose sums of products are exact."""
    return np.random.default_rng(shape[-1]).integers(-4, 5, shape).astype(kind)


@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(64, 64, 64), (33, 37, 41), (127, 33, 65), (70, 48, 331), (640, 64, 1024)],
)
@pytest.mark.parametrize("is_turned", [False, True])
def test_products(carry_out: CarryOut, rows: int, depth: int, columns: int, *, is_turned: bool) -> None:
    a, b = small(rows, depth), small(depth, columns)

    found = carry_out("matmul", a, np.ascontiguousarray(b.T) if is_turned else b, trans_b=is_turned)

    assert (found == a @ b).all()


@pytest.mark.parametrize("kind", [np.float16, np.int32, np.int8])
def test_products_of_other_types(carry_out: CarryOut, kind: type[np.generic]) -> None:
    a, b = small(70, 64, kind=kind), small(64, 40, kind=kind)

    found = carry_out("matmul", a, b)

    assert found.dtype == kind
    assert (found == (a.astype(np.int64) @ b.astype(np.int64)).astype(kind)).all()


def test_batches_of_which_one_side_is_stretched(carry_out: CarryOut) -> None:
    a, b = small(2, 3, 40, 64), small(3, 64, 36)

    assert (carry_out("matmul", a, b) == a @ b).all()


def test_rows_of_batches_are_rows(carry_out: CarryOut) -> None:
    x, w, bias = small(3, 17, 64), small(64, 48), small(48)

    assert (carry_out("linear", x, w, bias) == x @ w + bias).all()


@pytest.mark.parametrize(
    ("shape", "weights", "settings"),
    [
        ((2, 8, 12, 12), (32, 8, 3, 3), {"padding": 1}),
        ((1, 5, 9, 13), (37, 5, 3, 3), {}),
        ((1, 64, 7, 7), (40, 64, 1, 1), {}),
        ((2, 16, 11, 11), (64, 8, 3, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ],
)
def test_convolutions(
    carry_out: CarryOut, shape: tuple[int, ...], weights: tuple[int, ...], settings: dict[str, int]
) -> None:
    x, w = small(*shape), small(*weights)

    assert (carry_out("conv2d", x, w, **settings) == convolved(x, w, **settings)).all()


def convolved(x: Array, w: Array, stride: int = 1, padding: int = 0, groups: int = 1) -> Array:
    """Return a convolution as its sum over the places of the window."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = ((size - k) // stride + 1 for size, k in zip(padded.shape[2:], w.shape[2:], strict=True))
    parts: list[Array] = []
    for of_x, of_w in zip(np.split(padded, groups, 1), np.split(w, groups, 0), strict=True):
        total = np.zeros((x.shape[0], of_w.shape[0], height, width), np.float32)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                window = of_x[:, :, i : i + stride * height : stride, j : j + stride * width : stride]
                total += np.einsum("nchw,oc->nohw", window, of_w[:, :, i, j])
        parts.append(total)
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(carry_out: CarryOut, queries: int, *, is_causal: bool) -> None:
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((1, 2, n, 64), np.float32) for n in (queries, 97, 97))
    scores = q.astype(np.float64) @ k.swapaxes(-1, -2) / 8
    if is_causal:
        scores = np.where(np.tri(queries, 97, 97 - queries, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v

    np.testing.assert_allclose(carry_out("sdpa", q, k, v, causal=is_causal), expected, rtol=1e-4, atol=1e-5)
