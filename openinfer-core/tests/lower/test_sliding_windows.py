"""Stages under common loops whose steps keep what the next one reads again, in rings, and results over their images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from chained_stages import sums_of_sums

from openinfer.affine import Index
from openinfer.arch import TargetInfo
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.layout import Digit, Layout
from openinfer.loops import For, Kernel, Store, verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.lower import lowered
from openinfer.plan.in_place import is_read_before_written
from openinfer.schedule import Loop, ScheduleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute import Computation
    from openinfer.loops import Statement

FOUR = TargetInfo(vector_nbytes=16, registers=16)

TWICE = sums_of_sums(11, 4, 3)

STRIDED = """
def strided(x: f32[9], /, y: f32[4]):
    t0: f32[9]
    for i in grid(9):
        t0[i] = exp(x[i])
    for i in grid(4):
        for u in unordered(3):
            total0 = start(0.0)
            term0 = t0[2*i + u]
            total0 = total0 + term0
        y[i] = total0
"""

THRICE = """
def thrice(x: f32[9], /, y: f32[4]):
    t0: f32[8]
    t1: f32[6]
    for i in grid(8):
        t0[i] = x[i] + x[i + 1]
    for i in grid(6):
        for u in unordered(3):
            total0 = start(0.0)
            term0 = t0[i + u]
            total0 = total0 + term0
        t1[i] = total0
    for i in grid(4):
        for u in unordered(3):
            total0 = start(0.0)
            term0 = t1[i + u]
            total0 = total0 + term0
        y[i] = total0
"""

DEPTHWISE = """
def depthwise(x: f32[8, 7, 5], w: f32[8, 3, 3], /, y: f32[8, 7, 5]):
    ring: f32[8, 9, 5]
    for c, r, v in grid(8, 9, 5):
        ring[c, r, v] = fill(x[c, r - 1, v], 0.0)
    for c, i, j in grid(8, 7, 5):
        for p, q in unordered(3, 3):
            total0 = start(0.0)
            term0 = fill(ring[c, i + p, j + q - 1], 0.0) * w[c, p, q]
            total0 = total0 + term0
        y[c, i, j] = total0
"""


def slid(computation: Computation, *steps: tuple[str, int], layouts: dict[str, Layout] | None = None) -> Kernel:
    axes = {axis.name: axis for axis in computation.stages[-1].axes}
    loops = [Loop(axes[name], step) for name, step in steps]
    return lowered(computation, layouts, FOUR, fusion=loops, sliding=True)


def channels_last(channels: int, rows: int, columns: int) -> Layout:
    c, h, w = (Index.of(extent) for extent in (channels, rows, columns))
    return Layout((c, h, w), (Digit(1, 1, h), Digit(2, 1, w), Digit(0, 1, c)))


def depthwise() -> Kernel:
    """Return a depthwise convolution of four channels at a time, row by row, from a ring of three rows."""
    images = {"x": channels_last(8, 7, 5), "y": channels_last(8, 7, 5), "ring": channels_last(8, 9, 5)}
    return slid(parse_computation(DEPTHWISE), ("c", 4), ("i", 1), layouts=images)


def stored(body: Sequence[Statement], name: str) -> int:
    """Return how many elements are stored to a buffer."""
    count = 0
    for statement in body:
        if isinstance(statement, For):
            assert isinstance(statement.var.extent, int)
            count += statement.var.extent * stored(statement.body, name)
        count += isinstance(statement, Store) and statement.buffer.name == name
    return count


@pytest.mark.parametrize(
    ("text", "step", "rings", "times"),
    [
        (TWICE, 1, {"t0": 3}, {"t0": 8}),
        (TWICE, 2, {"t0": 4}, {"t0": 8}),
        (TWICE, 3, {"t0": 5}, {"t0": 8}),
        (STRIDED, 1, {"t0": 3}, {"t0": 9}),
        (STRIDED, 2, {"t0": 5}, {"t0": 9}),
        (THRICE, 1, {"t0": 5, "t1": 3}, {"t0": 8, "t1": 6}),
    ],
)
def test_every_place_is_computed_once_and_kept_while_it_is_read(
    text: str, step: int, rings: dict[str, int], times: dict[str, int]
) -> None:
    computation = parse_computation(text)
    kernel = slid(computation, ("i", step))
    x = np.random.default_rng(4).standard_normal(computation.inputs[0].shape[0].constant or 0).astype(np.float32)
    (expected,) = evaluate(computation, [x])
    sizes = {b.name: b.size.constant or 0 for b in kernel.buffers}
    arrays = {name: np.full(size, np.nan, np.float32) for name, size in sizes.items()} | {"x": x}

    interpret(kernel, arrays)

    assert verify(kernel).guarded == 0
    assert {name: size for name, size in sizes.items() if name.startswith("t")} == rings
    assert {name: stored(kernel.body, name) for name in times} == times
    np.testing.assert_allclose(arrays["y"], expected, rtol=1e-6)


def test_rows_at_a_border_are_written_out_so_that_none_is_tested() -> None:
    found = verify(depthwise())

    assert found.guarded == 0


def test_a_result_that_is_written_over_its_image_has_the_same_bits() -> None:
    kernel, image = depthwise(), channels_last(8, 7, 5)
    generator = np.random.default_rng(4)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((8, 7, 5), (8, 3, 3)))
    (expected,) = evaluate(parse_computation(DEPTHWISE), [x, w])
    arrays = {"w": w.ravel(), "ring": np.full(3 * 5 * 4, np.nan, np.float32)}
    apart, over = np.full(x.size, np.nan, np.float32), image.pack(x)

    interpret(kernel, {**arrays, "x": image.pack(x), "y": apart})
    interpret(kernel, {**arrays, "x": over, "y": over})

    np.testing.assert_array_equal(over, apart)
    np.testing.assert_allclose(over, image.pack(expected), rtol=1e-5, atol=1e-5)


def test_an_image_is_read_before_it_is_written_over_from_a_ring_only() -> None:
    plain = parse_computation("""
def plain(x: f32[7, 5], /, y: f32[7, 5]):
    for i, j in grid(7, 5):
        for p in unordered(3):
            total0 = start(0.0)
            term0 = fill(x[i + p - 1, j], 0.0)
            total0 = total0 + term0
        y[i, j] = total0
""")

    assert is_read_before_written(depthwise(), "y", "x")
    assert not is_read_before_written(lowered(plain, target=FOUR), "y", "x")


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        # The loop reads what it writes in the next iteration.
        ("    for i in SERIAL(7):\n        y[i] = x[i + 1]", True),
        # It reads what it has written in the last one.
        ("    y[0] = 0.0\n    for i in SERIAL(7):\n        y[i + 1] = x[i]", False),
        # What one iteration of the second loop does may happen in any order.
        ("    for i in SERIAL(2):\n        for j in SERIAL(4):\n            y[4*i + j] = x[4*i + j]", False),
        # An address is not known.
        ("    for i in SERIAL(8):\n        y[i] = x[(3*i)%8]", False),
    ],
)
def test_the_order_of_reads_and_writes(statements: str, expected: bool) -> None:
    kernel = parse_kernel(f"\ndef f(x: GLOBAL[f32, 8], y: GLOBAL[f32, 8]):\n{statements}\n")

    assert is_read_before_written(kernel, "y", "x") is expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # A guard keeps what lies outside from being read.
        ("i + 1", True),
        # The second byte of a word is written after the first one, from the same word.
        ("i", False),
        ("i - 1", False),
    ],
)
def test_words_are_read_before_their_bytes_are_written(word: str, expected: bool) -> None:
    kernel = parse_kernel(f"""
def f(x: GLOBAL[i32, 2], y: GLOBAL[i8, 8]):
    for i in SERIAL(2):
        a = guarded(x[{word}], i32(0), 0 <= {word} < 2)
        for j in SERIAL(4):
            y[4*i + j] = cast(a, i8)
""")

    assert is_read_before_written(kernel, "y", "x") is expected


def test_a_step_that_leaves_a_rest_does_not_slide() -> None:
    with pytest.raises(ScheduleError, match="i slides in steps of 4, which leave a rest"):
        slid(parse_computation(TWICE), ("i", 4))
