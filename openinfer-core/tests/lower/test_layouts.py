"""Several stages on tensors that have layouts: halos are zeros for every reader, padding is nobody's data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.compute import Computation
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.layout import Digit, Layout, row_major
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.schedule import Loop, ScheduleError

Array = npt.NDArray[Any]

FOUR = TargetInfo(vector_nbytes=16, registers=16, fma=True)

BLURRED = parse_computation("""
def blurred(x: f32[1, 3, 5, 6], /, y: f32[1, 3, 5, 6]):
    t0: f32[1, 3, 5, 6]
    for n, c, i, j in grid(1, 3, 5, 6):
        t0[n, c, i, j] = x[n, c, i, j] * 2.0
    for n, c, i, j in grid(1, 3, 5, 6):
        for v in unordered(3):
            total0 = start(0.0)
            term0 = fill(t0[n, c, i, j + v - 1], 0.0)
            total0 = total0 + term0
        y[n, c, i, j] = total0
""")

SQUARES = parse_computation("""
def squares(x: f32[1, 3, 5, 6], /, y: f32[1, 3, 5, 6]):
    t0: f32[1, 3, 5, 6]
    for n, c, i, j in grid(1, 3, 5, 6):
        t0[n, c, i, j] = x[n, c, i, j] + 1.0
    for n, c, i, j in grid(1, 3, 5, 6):
        y[n, c, i, j] = t0[n, c, i, j] * t0[n, c, i, j]
""")

SHIFTED = parse_computation("""
def shifted(x: f32[1, 3, 5, 6], /, y: f32[1, 3, 5, 6]):
    t0: f32[1, 3, 5, 6]
    for n, c, i, j in grid(1, 3, 5, 6):
        t0[n, c, i, j] = x[n, c, i, j] * 2.0
    for n, c, i, j in grid(1, 3, 5, 6):
        y[n, c, i, j] = fill(t0[n, c, i, j + 1], -0.0)
""")

PARTS = parse_computation("""
def parts(x: f32[1, 7, 2, 3], z: f32[1, 2, 2, 3], /, y: f32[1, 7, 2, 3]):
    for n, c, i, j in grid(1, 7, 2, 3):
        y[n, c, i, j] = x[n, c, i, j]
    for n, c, i, j in grid(1, 2, 2, 3):
        y[n, c + 1, i, j] = z[n, c, i, j] + 1.0
""")


def channels_last(shape: tuple[int, int, int, int], halo: int = 0) -> Layout:
    """Return a layout with channels innermost, padded to eight, and places around rows and columns."""
    n, _, h, w = shape
    extents = ((0, n), (2, h + 2 * halo), (3, w + 2 * halo), (1, 8))
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in extents)
    sides = ((0, 0), (0, 0), (halo, halo), (halo, halo))
    return Layout(tuple(map(Index.of, shape)), digits, sides if halo else ())


def assert_right(computation: Computation, layouts: dict[str, Layout], *fusion: Loop) -> dict[str, Array]:
    """Run a loop program in memory full of other numbers; return its buffers."""
    kernel = lowered(computation, layouts, FOUR, fusion=fusion)
    verify(kernel)
    known = {t.name: row_major(t.shape) for t in (*computation.inputs, *computation.outputs)} | layouts
    rng = np.random.default_rng(0)
    shapes = [tuple(extent.constant or 0 for extent in t.shape) for t in computation.inputs]
    inputs = [rng.integers(-9, 9, shape).astype(np.float32) for shape in shapes]
    arrays = {buffer.name: np.full(buffer.size.constant or 0, 99, np.float32) for buffer in kernel.buffers}
    for tensor, array in zip(computation.inputs, inputs, strict=True):
        arrays[tensor.name] = known[tensor.name].pack(array)
    interpret(kernel, arrays)
    (expected,) = evaluate(computation, inputs)
    grid = np.indices(expected.shape)
    address = np.zeros(expected.shape, np.int64)
    for digit in known["y"].digits:
        before = known["y"].halo[digit.dim][0] if known["y"].halo else 0
        address = address * digit.extent.evaluate({}) + grid[digit.dim] + before
    np.testing.assert_array_equal(arrays["y"][address], expected)
    return arrays


def test_a_later_stage_finds_zeros_around_a_temporary() -> None:
    assert_right(BLURRED, {"t0": channels_last((1, 3, 5, 6), 1)})


def test_a_halo_does_not_replace_negative_zeros() -> None:
    found = assert_right(SHIFTED, {"t0": channels_last((1, 3, 5, 6), halo=1)})

    assert np.signbit(found["y"].reshape(1, 3, 5, 6)[..., 5]).all()


def test_what_is_read_past_its_border_is_not_computed_in_parts() -> None:
    with pytest.raises(ScheduleError, match="t0 is read past its border"):
        lowered(BLURRED, fusion=(Loop(BLURRED.stages[-1].axes[3], 2),))


@pytest.mark.parametrize("halo", [0, 1])
def test_a_part_has_its_halo_along_axes_that_are_not_walked(halo: int) -> None:
    layout = channels_last((1, 3, 5, 6), halo)
    assert_right(BLURRED, {"t0": layout}, Loop(BLURRED.stages[-1].axes[2], 2))


@pytest.mark.parametrize("rows", [None, 2], ids=["apart", "under common loops"])
def test_the_halo_of_a_result_is_zeros(rows: int | None) -> None:
    fusion = () if rows is None else (Loop(SQUARES.stages[-1].axes[2], rows),)

    arrays = assert_right(SQUARES, {"y": channels_last((1, 3, 5, 6), 1)}, *fusion)

    y = arrays["y"].reshape(7, 8, 8)[:, :, :3]
    assert not y[[0, -1]].any()
    assert not y[:, [0, -1]].any()


def test_a_stage_that_writes_some_channels_leaves_those_after_them() -> None:
    assert_right(PARTS, {"y": channels_last((1, 7, 2, 3)), "z": channels_last((1, 2, 2, 3))})
