"""Products by matrix units: what subgroups compute, against NumPy, and which products have another form."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from operator_computations import computation

from openinfer.compute.reading import parse_computation
from openinfer.dtypes import BY_NAME, F16, F32, I8, I32
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.lower import tile_products
from openinfer.lower.tile_products import in_tile_products
from openinfer.schedule import Threads, TileShape
from openinfer.schedule.products import TileProductSchedule, tile_product

SHAPE = TileShape(rows=16, columns=16, depth=16, factor=F16, total=F32)
WHOLE = TileShape(rows=16, columns=16, depth=32, factor=I8, total=I32)
DEVICE = Threads(busy=1 << 15, group=1024, subgroup=32, shared_nbytes=49152, tiles=(SHAPE, WHOLE))


def product(*shapes: list[int], out: str = "f16", **settings: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """Return both factors and what the loop program of a product computes from them."""
    stages = computation("matmul", *(f"f16{shape}" for shape in shapes), **settings)
    kernel = in_tile_products(stages, DEVICE)
    assert kernel is not None
    verify(kernel)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    (tensor,) = stages.outputs
    shape = tuple(extent.evaluate({}) for extent in tensor.shape)
    result = np.zeros(int(np.prod(shape)), np.dtype(BY_NAME[out].storage))
    names = [tensor.name for tensor in (*stages.inputs, *stages.outputs)]
    interpret(kernel, dict(zip(names, (a.ravel(), b.ravel(), result), strict=True)))
    return a.astype(np.float64), b.astype(np.float64), result.reshape(shape).astype(np.float64)


@pytest.mark.parametrize(
    ("left", "right", "settings"),
    [
        ([32, 64], [64, 32], {}),
        ([37, 45], [45, 35], {}),
        ([45, 37], [45, 35], {"trans_a": True}),
        ([37, 44], [36, 44], {"trans_b": True}),
        ([2, 33, 40], [2, 40, 34], {}),
        ([2, 17, 40], [40, 34], {}),
    ],
)
def test_results_are_those_of_numpy(left: list[int], right: list[int], settings: dict[str, bool]) -> None:
    a, b, result = product(left, right, **settings)

    a = np.swapaxes(a, -1, -2) if settings.get("trans_a") else a
    b = np.swapaxes(b, -1, -2) if settings.get("trans_b") else b
    exact, size = a @ b, np.abs(a) @ np.abs(b)
    assert np.all(np.abs(result - exact) <= 2 * a.shape[-1] * 2.0**-24 * size + 2.0**-11 * np.abs(exact) + 2.0**-25)


WITH_BIAS = """
def product(x0: f16[37, 40], x1: f16[40, 36], x2: f16[36], /, y0: f16[37, 36]):
    for i0, i1 in grid(37, 36):
        for i2 in unordered(40):
            total0 = start(0.0)
            term0 = cast(x0[i0, i2], f32) * cast(x1[i2, i1], f32)
            total0 = total0 + term0
        y0[i0, i1] = cast(maximum(total0 + cast(x2[i1], f32), 0.0), f16)
"""


def test_results_are_computed_from_totals() -> None:
    kernel = in_tile_products(parse_computation(WITH_BIAS), DEVICE)
    assert kernel is not None
    verify(kernel)
    rng = np.random.default_rng(0)
    x, w, bias = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((37, 40), (40, 36), (36,)))
    y = np.zeros((37, 36), np.float16)

    interpret(kernel, {"x0": x.ravel(), "x1": w.ravel(), "x2": bias, "y0": y.reshape(-1)})

    assert np.array_equal(y, np.maximum(x.astype(np.float32) @ w.astype(np.float32) + bias, 0))


@pytest.mark.parametrize(("rows", "columns", "depth"), [(64, 64, 128), (37, 45, 70), (33, 40, 300)])
def test_products_of_integers_are_exact(rows: int, columns: int, depth: int) -> None:
    types = f"i8[{rows}, {depth}]", f"i8[{depth}, {columns}]"
    kernel = in_tile_products(computation("matmul", *types, acc=I32), DEVICE)
    assert kernel is not None
    verify(kernel)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((rows, depth), (depth, columns)))
    y = np.zeros((rows, columns), np.int32)

    interpret(kernel, {"x0": a.ravel(), "x1": b.ravel(), "y0": y.reshape(-1)})

    assert np.array_equal(y, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("depth", [32, 64, 96, 130])
def test_slabs_may_have_two_memories(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_two(*args: Any) -> TileProductSchedule | None:
        made = tile_product(*args)
        return None if made is None else replace(made, stages=2)

    monkeypatch.setattr(tile_products, "tile_product", in_two)
    a, b, result = product([40, depth], [depth, 33])

    assert np.allclose(result, a @ b, rtol=2.0**-10, atol=1e-4)


@pytest.mark.parametrize(
    ("op", "types"),
    [
        ("matmul", ("f32[64, 64]", "f32[64, 64]")),
        ("matmul", ("bf16[64, 64]", "bf16[64, 64]")),
        ("matmul", ("f16[1, 64]", "f16[64, 64]")),
        ("matmul", ("f16[64, 16]", "f16[16, 64]")),
        ("conv2d", ("f16[2, 8, 9, 9]", "f16[64, 8, 3, 3]")),
    ],
)
def test_other_products_have_another_form(op: str, types: tuple[str, ...]) -> None:
    assert in_tile_products(computation(op, *types), DEVICE) is None


def test_a_device_without_matrix_units_has_another_form() -> None:
    plain = Threads(busy=1 << 15, group=1024, subgroup=32, shared_nbytes=49152)

    assert in_tile_products(computation("matmul", "f16[64, 64]", "f16[64, 64]"), plain) is None


@pytest.mark.parametrize(
    ("depth", "shared_nbytes", "expected"),
    [(4096, 49152, (64, 1)), (40, 49152, (32, 2)), (4096, 40000, (32, 1)), (31, 49152, None)],
)
def test_slabs_are_what_memory_has_room_for(depth: int, shared_nbytes: int, expected: tuple[int, int] | None) -> None:
    made = tile_product(4096, 4096, depth, 1, (F16, F32), replace(DEVICE, shared_nbytes=shared_nbytes))

    assert (made and (made.depth, made.stages)) == expected


def test_subgroups_that_do_not_bring_whole_lines_have_another_form() -> None:
    assert tile_product(4096, 4096, 4096, 1, (F16, F32), replace(DEVICE, subgroup=2)) is None


@pytest.mark.parametrize(
    ("sizes", "side", "band"),
    [
        ((4096, 4096, 4096, 1), 128, 8),
        ((1024, 1024, 4096, 1), 64, 8),
        ((256, 256, 4096, 1), 32, 8),
        ((32, 4096, 64, 64), 32, 1),
    ],
)
def test_tiles_are_as_large_as_keeps_the_device_busy(sizes: tuple[int, int, int, int], side: int, band: int) -> None:
    made = tile_product(*sizes, (F16, F32), DEVICE)

    assert made is not None
    assert (made.rows, made.columns, made.band) == (side, side, band)
