"""Products by groups of threads: which stages are products, how they are dealt out, and what they compute."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from operator_computations import computation

from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.text import kernel_text
from openinfer.lower.product_sides import product_of
from openinfer.lower.product_teams import in_product_teams
from openinfer.schedule import Threads
from openinfer.schedule.products import ProductSchedule, product_tile

DEVICE = Threads(busy=1 << 12, group=256, subgroup=32, shared_nbytes=32768)
LITTLE = Threads(group=256, shared_nbytes=16384)
"""A device with less shared memory than the largest tiles take."""


def sides(op: str, *types: str, **settings: Any) -> tuple[list[str], list[str], list[str]] | None:
    """Return the names of the axes of rows, columns and single products of the last stage of an operator."""
    product = product_of(computation(op, *types, **settings).stages[-1])
    if product is None:
        return None
    rows, columns, both = ([axis.name for axis in axes] for axes in (product.rows, product.columns, product.both))
    return rows, columns, both


def test_the_sides_of_products() -> None:
    assert sides("matmul", "f32[40, 50]", "f32[50, 60]") == (["i0"], ["i1"], [])
    assert sides("matmul", "f32[2, 3, 40, 50]", "f32[3, 50, 60]") == (["i0", "i2"], ["i3"], ["i1"])
    assert sides("conv2d", "f32[2, 8, 9, 9]", "f32[4, 8, 3, 3]") == (["i1", "i2", "i3"], ["i0"], [])
    assert sides("conv2d", "f32[2, 8, 9, 9]", "f32[8, 1, 3, 3]", groups=8) is None
    assert sides("matmul", "f32[1, 50]", "f32[50, 60]") is None


def test_the_factors_of_a_term_depend_on_one_side_each() -> None:
    quantised = product_of(
        computation("qmatmul", "f32[40, 64]", "i4[48, 64]", "f32[48, 2]", trans_w=True, group_size=32).stages[0]
    )
    attention = product_of(computation("sdpa", *["f32[1, 2, 40, 64]"] * 3).stages[-1])

    assert quantised is not None
    assert [factor.is_left for factor in quantised.factors] == [True, False]
    assert attention is not None
    assert [factor.is_left for factor in attention.factors] == [True, True, False]


@pytest.mark.parametrize(
    ("sizes", "device", "expected"),
    [
        ((4096, 4096, 4096, 1), DEVICE, ProductSchedule(rows=128, columns=128, depth=16)),
        ((256, 256, 64, 1), DEVICE, ProductSchedule(rows=64, columns=64, depth=16)),
        ((64, 4096, 64, 64), DEVICE, ProductSchedule(rows=64, columns=128, depth=16)),
        ((4096, 64, 64, 64), DEVICE, ProductSchedule(rows=128, columns=64, depth=16)),
        ((64, 64, 64, 64), DEVICE, ProductSchedule(rows=64, columns=64, depth=16)),
        ((31, 4096, 4096, 1), DEVICE, None),
        ((4096, 4096, 4096, 1), Threads(group=128), None),
        ((4096, 4096, 4096, 1), Threads(group=256, is_software=True), None),
        ((4096, 4096, 4096, 1), LITTLE, ProductSchedule(rows=128, columns=64, depth=16)),
    ],
)
def test_tiles_are_as_large_as_keeps_the_device_busy(
    sizes: tuple[int, int, int, int], device: Threads, expected: ProductSchedule | None
) -> None:
    rows, columns, depth, count = sizes

    assert product_tile(rows, columns, depth, count, 4, 4, device) == expected


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "i8", "i64"])
@pytest.mark.parametrize("shared", [16384, 32768, 49152])
def test_slabs_fit_shared_memory(dtype: str, shared: int) -> None:
    device = Threads(busy=1, group=256, shared_nbytes=shared)
    kernel = in_product_teams(computation("matmul", f"{dtype}[256, 256]", f"{dtype}[256, 256]"), device)
    if kernel is None:
        assert shared == 16384, "64 by 64 places take 17,408 bytes at most"
        return
    declared = re.findall(r"_slab\d+: SHARED\[(\w+), (\d+)\]", kernel_text(kernel))
    assert len(declared) == 2
    assert sum(int(count) * (8 if kind.endswith("64") else 4) for kind, count in declared) <= shared


def test_a_product_with_parts_of_tiles_and_slabs() -> None:
    found = computation("matmul", "f32[33, 34]", "f32[34, 35]")
    kernel = in_product_teams(found, DEVICE)
    assert kernel is not None
    verify(kernel)
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((33, 34), (34, 35)))
    arrays = {"x0": a.reshape(-1), "x1": b.reshape(-1), "y0": np.zeros(33 * 35, np.float32)}

    interpret(kernel, arrays)

    assert (arrays["y0"].reshape(33, 35) == a @ b).all()


@pytest.mark.parametrize(
    ("op", "types", "settings"),
    [
        ("matmul", ("f32[300, 257]", "f32[257, 130]"), {}),
        ("matmul", ("f16[256, 512]", "f16[256, 512]"), {"trans_b": True}),
        ("matmul", ("i8[2, 3, 100, 64]", "i8[3, 64, 90]"), {}),
        ("conv2d", ("f32[2, 16, 13, 13]", "f32[72, 8, 3, 3]"), {"padding": 1, "stride": 2, "groups": 2}),
        ("linear", ("f32[3, 40, 64]", "f32[64, 72]", "f32[72]"), {}),
        ("qmatmul", ("f32[40, 64]", "i4[48, 64]", "f32[48, 2]"), {"trans_w": True, "group_size": 32}),
    ],
)
def test_products_touch_their_own_elements_only(op: str, types: tuple[str, ...], settings: dict[str, Any]) -> None:
    kernel = in_product_teams(computation(op, *types, **settings), DEVICE)

    assert kernel is not None
    verify(kernel)


def test_the_next_slab_is_loaded_while_one_is_multiplied() -> None:
    kernel = in_product_teams(computation("matmul", "f32[64, 64]", "f32[64, 64]"), DEVICE)

    assert kernel is not None
    text = kernel_text(kernel)
    assert (
        """\
                        BARRIER()
                        if 0 <= slab0 + 1 < 4:
                            for lane2 in UNROLL(4):
                                left_ahead0[lane2] = x0["""
        in text
    )
    assert text.count("BARRIER()") == 2
