"""Stages under common loops compute what they compute one after the other, with less memory between them."""

from __future__ import annotations

import numpy as np
import pytest
from chained_stages import softmax, sums_of_sums

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.compute import Computation
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.layout import Digit, Layout
from openinfer.loops import Kernel, verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.lower.fused import needed
from openinfer.schedule import Loop, ScheduleError

FOUR = TargetInfo(vector_nbytes=16, registers=16, fma=True)

PAIR = """
def pair(x: f32[1, 5, 7, 6], w: f32[5, 1, 3, 3], z: f32[6, 5], /, y: f32[1, 6, 7, 6]):
    t0: f32[1, 5, 7, 6]
    for n, o, i, j in grid(1, 5, 7, 6):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = fill(x[n, o, i + u - 1, j + v - 1], 0.0) * w[o, 0, u, v]
            total0 = total0 + term0
        t0[n, o, i, j] = maximum(total0, 0.0)
    for n, o, i, j in grid(1, 6, 7, 6):
        for c in unordered(5):
            total0 = start(0.0)
            term0 = t0[n, c, i, j] * z[o, c]
            total0 = total0 + term0
        y[n, o, i, j] = total0
"""

GROUPS = """
def groups(x: f32[2, 5], /, y: f32[6, 5]):
    t0: f32[2, 5]
    for g, c in grid(2, 5):
        t0[g, c] = x[g, c] * 2.0
    for i, c in grid(6, 5):
        y[i, c] = t0[i // 3, c] + 1.0
"""

SOFTMAX = softmax(3, 21)
WINDOW_OF_WINDOWS = sums_of_sums(9, 3, 3)


def fused(computation: Computation, *steps: tuple[str, int], target: TargetInfo | None = FOUR) -> Kernel:
    axes = {axis.name: axis for axis in computation.stages[-1].axes}
    return lowered(computation, target=target, fusion=[Loop(axes[name], step) for name, step in steps])


def sizes(kernel: Kernel) -> dict[str, int]:
    """Return the elements of each temporary."""
    return {buffer.name: buffer.size.constant or 0 for buffer in kernel.buffers if buffer.name.startswith("t")}


@pytest.mark.parametrize("target", [None, FOUR], ids=["plain", "lanes"])
@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (PAIR, [("i", 1)]),
        (PAIR, [("i", 2)]),
        (PAIR, [("i", 3), ("j", 4)]),
        (SOFTMAX, [("i", 1)]),
        (SOFTMAX, [("i", 2)]),
        (WINDOW_OF_WINDOWS, [("i", 2)]),
        (GROUPS, [("i", 1)]),
        (GROUPS, [("i", 3)]),
    ],
)
def test_fused_stages_compute_what_they_mean(
    text: str, steps: list[tuple[str, int]], target: TargetInfo | None
) -> None:
    computation = parse_computation(text)
    kernel = coalesced(fused(computation, *steps, target=target))
    verify(kernel)
    rng = np.random.default_rng(4)
    shapes = [tuple(extent.constant or 0 for extent in t.shape) for t in computation.inputs]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    (expected,) = evaluate(computation, inputs)
    arrays = {t.name: array.reshape(-1) for t, array in zip(computation.inputs, inputs, strict=True)}
    found = arrays["y"] = np.zeros(expected.size, np.float32)
    arrays |= {name: np.full(size, np.nan, np.float32) for name, size in sizes(kernel).items()}
    interpret(kernel, arrays)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


def test_a_temporary_holds_what_one_step_reads() -> None:
    kernel = fused(parse_computation(PAIR), ("i", 2))
    assert sizes(kernel) == {"t0": 5 * 2 * 6}


def test_windows_keep_the_places_that_neighbours_share() -> None:
    assert sizes(fused(parse_computation(WINDOW_OF_WINDOWS), ("i", 2))) == {"t0": 4}


def test_softmax_needs_one_row_at_a_time() -> None:
    assert sizes(fused(parse_computation(SOFTMAX), ("i", 1))) == {"t0": 1, "t1": 21, "t2": 1}


def test_a_part_of_a_temporary_has_the_layout_of_the_whole() -> None:
    computation = parse_computation(PAIR)
    padded = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in ((0, 1), (2, 7), (3, 6), (1, 8)))
    layout = Layout(computation.tensor("t0").shape, padded)
    kernel = lowered(computation, {"t0": layout}, FOUR, fusion=[Loop(computation.stages[-1].axes[2], 2)])
    verify(kernel)
    assert sizes(kernel) == {"t0": 2 * 6 * 8}


def test_stages_that_store_results_are_not_fused() -> None:
    computation = parse_computation("""
def two(x: f32[4], /, y: f32[4], z: f32[4]):
    for i in grid(4):
        y[i] = x[i] + 1.0
    for i in grid(4):
        z[i] = y[i] + x[i]
""")
    with pytest.raises(ScheduleError, match="y cannot be computed in parts"):
        fused(computation, ("i", 2))


def test_stages_are_fused_under_axes_of_the_last_one() -> None:
    computation = parse_computation(PAIR)
    other = computation.stages[0].axes[1]
    with pytest.raises(ScheduleError, match="under axes of y"):
        lowered(computation, fusion=[Loop(other, 1)])


def test_stages_are_not_fused_along_an_axis_of_which_all_places_are_read_in_each_step() -> None:
    computation = parse_computation("""
def square(x: f32[6, 6], /, y: f32[6, 6]):
    t0: f32[6, 6]
    for i, j in grid(6, 6):
        t0[i, j] = exp(x[i, j])
    for i, j in grid(6, 6):
        for r in unordered(6):
            total0 = start(0.0)
            term0 = t0[i, r] * t0[r, j]
            total0 = total0 + term0
        y[i, j] = total0
""")
    with pytest.raises(ScheduleError, match="t0 at different places"):
        fused(computation, ("i", 2))


def test_steps_that_end_inside_a_group_are_refused_before_a_kernel_is_made() -> None:
    computation = parse_computation(GROUPS)
    (axis,) = (axis for axis in computation.stages[-1].axes if axis.name == "i")
    with pytest.raises(ScheduleError, match="does not begin at its first place"):
        needed(computation, [Loop(axis, 2)])
