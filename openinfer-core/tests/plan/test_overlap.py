"""How far a result may reach into an operand that is still read, and places that keep that distance."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.compute.reading import parse_computation
from openinfer.loops.interpret import interpret
from openinfer.lower import lowered
from openinfer.plan.overlap import distance, reach
from openinfer.plan.places import ALIGNMENT, place
from openinfer.plan.steps import Arrangement, ComputeStep, Origin, ValueRef

WINDOW = """
def window(x: f32[9, 4], w: f32[3], /, y: f32[7, 4]):
    for i, j in grid(7, 4):
        for p in unordered(3):
            total0 = start(0.0)
            term0 = x[i + p, j] * w[p]
            total0 = total0 + term0
        y[i, j] = total0
"""

WIDENING = """
def widening(x: f32[9, 2], w: f32[2, 6], /, y: f32[9, 6]):
    for i, j in grid(9, 6):
        for p in unordered(2):
            total0 = start(0.0)
            term0 = x[i, p] * w[p, j]
            total0 = total0 + term0
        y[i, j] = total0
"""

REVERSED = """
def reversed(x: f32[9], w: f32[1], /, y: f32[9]):
    for i in grid(9):
        y[i] = x[8 - i] * w[0]
"""


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        # An element of the result is stored after the one of the operand was read that it lies over.
        (WINDOW, 0),
        # All but the last element are stored when the operand is read from its 16th on.
        (WIDENING, 53 - 16),
        # The first element of the operand is read last, when everything is stored.
        (REVERSED, 9),
    ],
)
def test_an_operand_lies_after_the_start_of_the_result_by_what_is_stored_before_it_is_read(text, elements):
    computation = parse_computation(text)
    kernel = lowered(computation)
    sizes = {buffer.name: buffer.size.constant for buffer in kernel.buffers}
    generator = np.random.default_rng(3)
    arrays = {name: generator.standard_normal(size).astype(np.float32) for name, size in sizes.items()}

    found = (distance(kernel, "y", {"x"}) or 0) // 4

    memory = np.full(max(sizes["y"], found + sizes["x"]), np.nan, np.float32)
    memory[found : found + sizes["x"]] = arrays["x"]
    interpret(kernel, {**arrays, "x": memory[found : found + sizes["x"]], "y": memory[: sizes["y"]]})
    interpret(kernel, arrays)
    np.testing.assert_array_equal(memory[: sizes["y"]], arrays["y"])
    assert found == elements


def test_words_are_counted_in_bytes():
    text = """
def narrowed(x: i32[8], /, y: i8[8]):
    for i in grid(8):
        y[i] = cast(x[i], i8)
"""
    widened = text.replace("i32[8]", "i8[8]").replace("y: i8[8]", "y: i32[8]").replace("], i8)", "], i32)")

    # What one iteration does may happen in any order: the first byte is stored when the first word is read.
    assert distance(lowered(parse_computation(text)), "y", {"x"}) == 1
    assert distance(lowered(parse_computation(widened)), "y", {"x"}) == 4 * 8 - 7


def test_a_copy_of_rows_in_their_order_may_start_at_its_operand_or_before():
    text = """
def shifted(x: f32[9, 4], /, y: f32[7, 4]):
    for i, j in grid(7, 4):
        y[i, j] = x[i + 2, j]
"""

    assert distance(lowered(parse_computation(text)), "y", {"x"}) == 4 * (1 - 8)


@pytest.mark.parametrize(("dtype", "itemsize"), [("f32", 4), ("i32", 4), ("i16", 2), ("u8", 1)])
def test_how_far_a_result_reaches_is_counted_in_bytes_of_what_the_computation_stores(dtype, itemsize):
    # Bytes of the program may be stored as words: the types of its values say nothing about addresses.
    zero = "0.0" if dtype == "f32" else f"{dtype}(0)"
    computation = parse_computation(WIDENING.replace("f32", dtype).replace("0.0", zero))
    inputs = (ValueRef(0), ValueRef(1))
    step = ComputeStep(origin=Origin("entry", ()), op="product", computation=computation, inputs=inputs, outputs=(2,))

    assert reach(step, 2, 0) == ((53 - 16) * itemsize, None)
    assert reach(replace(step, arrangement=Arrangement(backwards=True)), 2, 0) == (None, 2 * itemsize)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 300), min_size=2, max_size=8), st.data())
def test_results_and_operands_keep_their_distance_and_others_lie_level_or_apart(extents, data):
    count = len(extents)
    pairs = [(first, second) for first in range(count) for second in range(first)]
    kinds = {pair: data.draw(st.sampled_from(["apart", "distance", "level", "free"])) for pair in pairs}
    conflicts = dict.fromkeys(range(count), 0)
    level = dict.fromkeys(range(count), 0)
    near = {}
    for (first, second), kind in kinds.items():
        if kind == "level":
            level[first] |= 1 << second
            level[second] |= 1 << first
        elif kind != "free":
            conflicts[first] |= 1 << second
        if kind == "distance":
            near[first, second] = data.draw(st.integers(-200, 400))

    offsets, total = place(dict(enumerate(extents)), dict.fromkeys(range(count), "f32"), conflicts, level, near)

    for (first, second), kind in kinds.items():
        one, other = ((offsets[v], offsets[v] + extents[v]) for v in (first, second))
        is_apart = one[1] <= other[0] or other[1] <= one[0]
        assert (
            kind == "free"
            or is_apart
            or (kind == "level" and one[0] == other[0])
            or (kind == "distance" and other[0] >= one[0] + near[first, second])
        )
    assert all(offset % ALIGNMENT == 0 and offset + extents[v] <= total for v, offset in offsets.items())
