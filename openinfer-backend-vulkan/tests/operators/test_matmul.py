"""Matrix products against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.compute.reading import parse_computation
from openinfer.dtypes import F32, I16
from openinfer.errors import UnsupportedError
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer_backend_vulkan.backend import VulkanBackend

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


def normal(*shape: int) -> Array:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((1, 1), (1, 1)),
        ((5, 7), (7, 3)),
        ((65, 33), (33, 129)),
        ((4, 5, 7), (4, 7, 3)),
        ((3, 1, 5, 7), (4, 7, 2)),
        ((2, 1, 3, 1, 2, 3), (1, 4, 1, 5, 3, 2)),
        ((5, 7), (6, 7, 3)),
        ((7,), (7, 3)),
        ((5, 7), (7,)),
        ((7,), (7,)),
        ((4, 5, 7), (7,)),
        ((3, 0), (0, 2)),
        ((0, 3), (3, 2)),
    ],
)
def test_matmul_is_numpys(carry_out: CarryOut, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = normal(*left), normal(*right)
    expected = a.astype(np.float64) @ b.astype(np.float64)

    found = carry_out("matmul", a, b)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


TILED = [((64, 48), (48, 64)), ((128, 33), (33, 66)), ((3, 32, 20), (3, 20, 64)), ((4, 64, 17), (17, 32))]


@pytest.mark.parametrize(("left", "right"), TILED)
def test_products_in_tiles_are_numpys(
    device: VulkanBackend, carry_out: CarryOut, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-9, 9, shape).astype(np.int32) for shape in (left, right))
    floats = a.astype(np.float32), b.astype(np.float32)

    assert (carry_out("matmul", a, b) == a @ b).all()
    assert (carry_out("matmul", *floats) == a @ b).all()
    assert device._device.physical.shader_target.busy * 4 <= (a @ b).size, "too small for a tile here"


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize(("left", "right"), TILED)
def test_products_in_tiles_are_divided_where_a_device_ends_loops(
    carry_out: CarryOut, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    a, b = np.ones(left, np.float32), np.full(right, 2, np.float32)

    assert (carry_out("matmul", a, b) == 2 * left[-1]).all()


def test_a_tile_loads_each_element_once_for_several_results() -> None:
    product = parse_computation("""
def product(a: f32[64, 32], b: f32[32, 64], /, y: f32[64, 64]):
    for i, j in grid(64, 64):
        for k in unordered(32):
            total0 = start(0.0)
            term0 = a[i, k] * b[k, j]
            total0 = total0 + term0
        y[i, j] = total0
""")

    (tiled,), (single,) = (
        [shader for stage in shaders_of(product, ShaderTarget(busy=busy, is_software=True)) for shader in stage.shaders]
        for busy in (256, 1 << 15)
    )

    assert (tiled.threads, single.threads) == (256, 4096)
    assert tiled.is_pushed
    assert tiled.source.count("a[") - 1 == 4
    assert tiled.source.count("b[") - 1 == 4
    assert tiled.source.count("y[") - 1 == 16


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_integer_products_wrap(carry_out: CarryOut, dtype: type[np.int32 | np.uint32]) -> None:
    limits = np.iinfo(dtype)
    a = np.random.default_rng(4).integers(limits.min, limits.max, (6, 9), dtype=dtype, endpoint=True)
    exact = a.astype(object) @ a.T.astype(object)

    found = carry_out("matmul", a, np.ascontiguousarray(a.T))

    assert ((found.astype(object) - exact) % (1 << 32) == 0).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("leading", [(), (1,), (6,), (2, 3)])
def test_linear_is_a_product_and_a_bias(
    carry_out: CarryOut, leading: tuple[int, ...], transposed: bool, bias: bool
) -> None:
    x, w, b = normal(*leading, 7), normal(7, 4), normal(4)
    expected = x.astype(np.float64) @ w.astype(np.float64) + (b.astype(np.float64) if bias else 0.0)
    given = np.ascontiguousarray(w.T) if transposed else w

    found = carry_out("linear", x, given, b if bias else None, trans_w=transposed)

    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_infinity_and_nan_reach_their_row_only(carry_out: CarryOut) -> None:
    a = normal(3, 4)
    a[0, 1], a[1, 2] = np.inf, np.nan

    found = carry_out("matmul", a, np.ones((4, 2), np.float32))

    assert np.isinf(found[0]).all()
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[2]).all()


def test_integers_are_summed_in_the_accumulator_and_wrap_at_its_width(carry_out: CarryOut) -> None:
    a, b = np.full((1, 5), 100, np.int8), np.full((5, 1), 100, np.int8)

    assert carry_out("matmul", a, b).tolist() == [[50_000 % 256 - 256 * (50_000 % 256 > 127)]]
    assert carry_out("matmul", a, b, acc=I16).tolist() == [[50_000 - 65_536]]
    assert carry_out("matmul", a, b, acc=(I16, F32)).tolist() == [[50_000.0 - 65_536]]


@pytest.mark.usefixtures("few_turns")
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.bool_])
def test_a_sum_is_kept_unrounded_between_dispatches(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    a, b = np.ones((2, 2500), dtype), np.ones((2500, 3), dtype)

    found = carry_out("matmul", a, b)

    assert found.dtype == dtype
    assert found.tolist() == np.full((2, 3), 2500).astype(dtype).tolist()


def test_a_label_of_an_equation_may_mean_several_dims(carry_out: CarryOut) -> None:
    x = normal(4, 4)

    np.testing.assert_allclose(carry_out("einsum", x, equation="ii->i"), np.diagonal(x))
    np.testing.assert_allclose(carry_out("einsum", x, x, equation="ij,kj->ik"), x @ x.T, rtol=1e-5, atol=1e-6)


def test_a_sum_of_more_products_than_kernels_count_is_refused(carry_out: CarryOut) -> None:
    x = np.ones(1 << 16, np.float32)

    with pytest.raises(UnsupportedError, match="a stage of einsum has 2147483648 terms or more for one result"):
        carry_out("einsum", x, x, equation="i,j->")


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_operands_may_be_stored_transposed(carry_out: CarryOut, trans_a: bool, trans_b: bool) -> None:
    a, b = normal(2, 5, 7), normal(7, 3)
    stored_a = np.ascontiguousarray(a.swapaxes(-1, -2)) if trans_a else a
    stored_b = np.ascontiguousarray(b.T) if trans_b else b

    found = carry_out("matmul", stored_a, stored_b, trans_a=trans_a, trans_b=trans_b)

    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-5)
