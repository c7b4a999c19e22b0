"""Large products are cut by their shapes alone, into pieces that are each worth a thread."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer_backend_cpu.tiles import Tiles, tiles

SHAPES = [
    ((512, 512), (512, 512), 1),
    ((1024, 1024), (1024, 1024), 1),
    ((1000, 1031), (1031, 999), 1),
    ((2049, 2047), (2047, 2049), 2),
    ((64, 768), (768, 3072), 1),
    ((64, 768), (768, 9000), 3),
    ((8, 768), (768, 3072), 1),
    ((3000, 100), (100, 70), 1),
    ((3000, 3000), (3000, 70), 2),
    ((40000, 300), (300, 70), 20),
    ((1, 768), (768, 50257), 3),
    ((50257, 768), (768, 1), 3),
    ((1, 4096), (4096, 4096), 1),
    ((1, 2049, 2047), (2047, 2049), 2),
    ((8192, 8192), (8192, 8192), 6),
    ((12, 256, 64), (12, 64, 256), 3),
    ((2, 12, 256, 64), (12, 64, 256), 6),
    ((3, 1, 500, 300), (7, 300, 500), 7),
    ((600, 100, 100), (600, 100, 300), 60),
    ((8, 1, 128), (8, 128, 30000), 4),
    ((0, 100, 100), (0, 100, 100), 1),
]


@pytest.mark.parametrize(("left", "right", "count"), SHAPES)
def test_pieces_are_the_whole_result_once(left: tuple[int, ...], right: tuple[int, ...], count: int) -> None:
    a, b = (np.broadcast_to(np.int8(0), shape) for shape in (left, right))
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    out = np.zeros((*batch, left[-2], right[-1]), np.int8)
    cut = tiles(left, right)
    for x, y, part in cut.of(a, b, out):
        assert (*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]) == part.shape
        assert x.shape[-1] == y.shape[-2] == left[-1]
        part += 1
    assert (out == 1).all()
    assert len(cut) == count


def test_pieces_are_the_products_of_their_operands() -> None:
    """Whole numbers, whose products are exact."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, shape).astype(np.float64) for shape in ((3, 1, 130, 70), (5, 70, 90)))
    out = np.empty((3, 5, 130, 90))
    cut = Tiles((-1, (slice(0, 2), slice(2, 5))), (slice(0, 64), slice(64, 130)), (slice(0, 90),))
    for x, y, part in cut.of(a, b, out):
        np.matmul(x, y, out=part)
    np.testing.assert_array_equal(out, a @ b)


@pytest.mark.parametrize(("left", "right", "count"), SHAPES)
def test_pieces_begin_on_lines_of_the_cache(left: tuple[int, ...], right: tuple[int, ...], count: int) -> None:
    del count
    cut = tiles(left, right)
    assert all(span.start % 64 == 0 for span in (*cut.rows, *cut.columns))
