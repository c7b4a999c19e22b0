"""Stages in tiles and lanes compute what they mean, under every schedule, layout and target."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiled_stages import (
    FOUR,
    TARGETS,
    TEXTS,
    assert_right,
    channels_last,
    convolution,
    depthwise,
    image_layouts,
    largest_of_windows,
)

from openinfer.arch import TargetInfo
from openinfer.compute import Computation, Order
from openinfer.compute.reading import parse_computation
from openinfer.layout import row_major
from openinfer.loops import Bind
from openinfer.schedule import Loop, Schedule, choose, padded_factor
from openinfer.schedule.text import schedule_text


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("name", TEXTS)
def test_chosen_schedules_compute_what_the_stage_means(name: str, target: TargetInfo) -> None:
    assert_right(parse_computation(TEXTS[name]), target, constants=("w",) if "w: " in TEXTS[name] else ())


def test_a_change_of_layout_stores_from_the_first_address_on() -> None:
    computation = parse_computation("""
def copy(x: f32[1, 3, 5, 6], /, y: f32[1, 3, 5, 6]):
    for n, c, i, j in grid(1, 3, 5, 6):
        y[n, c, i, j] = x[n, c, i, j]
""")
    layouts = {"y": channels_last((1, 3, 5, 6), 4, 1)}
    (stage,) = computation.stages
    known = {"x": row_major(computation.tensor("x").shape), **layouts}
    assert schedule_text(choose(stage, known, FOUR)) == "n i j c=unroll"
    assert_right(computation, FOUR, layouts)


@st.composite
def windows(draw: st.DrawFn) -> Computation:
    """Return a convolution, a depthwise convolution or a pool."""
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 6)), draw(st.integers(3, 8)), draw(st.integers(3, 8)))
    pad, stride = draw(st.integers(0, 1)), draw(st.integers(1, 2))
    order = draw(st.sampled_from(["unordered", "sequential"]))
    kind = draw(st.sampled_from(["convolution", "pointwise", "depthwise", "pool"]))
    if kind == "depthwise":
        return depthwise(shape, stride, pad)
    if kind == "pool":
        return largest_of_windows(shape, order)
    out = draw(st.integers(1, 9))
    if kind == "pointwise":
        return convolution(shape, out, 1, stride, 0, order)
    return convolution(shape, out, 3, stride, pad, order)


@settings(max_examples=25, deadline=None)
@given(windows(), st.sampled_from(TARGETS), st.integers(0, 1), st.booleans())
def test_windows_in_any_layout(computation: Computation, target: TargetInfo, halo: int, is_image: bool) -> None:
    layouts = image_layouts(computation, target.lanes(4), halo) if is_image else {}
    assert_right(computation, target, layouts, tuple(t.name for t in computation.inputs if t.name in ("w", "b")))


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("stride", [1, 2])
def test_a_halo_makes_every_access_certain(stride: int, target: TargetInfo) -> None:
    computation = convolution((1, 3, 7, 7), 5, 3, stride, 1)
    accesses = assert_right(computation, target, image_layouts(computation, target.lanes(4), 1), ("w", "b"))
    assert accesses.guarded == 0


@st.composite
def schedules(draw: st.DrawFn, computation: Computation) -> Schedule:
    """Return a legal schedule: serial loops over places, then serial ones over terms, then copies and lanes."""
    (stage,) = computation.stages
    fold = stage.fold
    folded = fold.axes if fold else ()
    is_free = fold is not None and fold.order is Order.ANY
    lane = draw(st.sampled_from([None, *stage.axes, *(folded if is_free else ())]))
    lanes = draw(st.sampled_from([2, 4]))
    serial: dict[str, list[Loop]] = {"own": [], "folded": []}
    copied: list[Loop] = []
    for axis in (*stage.axes, *folded):
        unit = lanes if axis == lane else 1
        copies = draw(st.sampled_from([1, 1, 2, 3]))
        is_partial = axis in folded and is_free and axis != lane and draw(st.booleans())
        if copies > 1 or axis == lane:
            copied.append(Loop(axis, unit, Bind.UNROLL, partial=is_partial or (axis == lane and axis in folded)))
            if axis != lane and copies * unit == unit:
                copied.pop()
        serial["folded" if axis in folded else "own"].append(Loop(axis, copies * unit))
    if is_free:
        copied = draw(st.permutations(copied))
        serial["folded"] = draw(st.permutations(serial["folded"]))
        serial["own"] = draw(st.permutations(serial["own"]))
    elif any(loop.axis in folded[:-1] for loop in copied):
        # Terms in sequential order: copies along the last folded axis only.
        copied = [loop for loop in copied if loop.axis not in folded]
        serial["folded"] = [Loop(loop.axis) for loop in serial["folded"]]
    ends = [Loop(lane, 1, Bind.LANES)] if lane is not None else []
    padded = padded_factor(stage)
    skip = padded[0] if padded is not None and draw(st.booleans()) else None
    return Schedule((*serial["own"], *serial["folded"], *copied, *ends), skip=skip)


def depthwise_of_bytes(channels: int, stride: int) -> Computation:
    """Return a depthwise convolution of bytes in floats, which its sums are exact in."""
    return parse_computation(f"""
def depthwise(x: u8[1, {channels}, 6, 7], w: i8[{channels}, 3, 3], /, y: i32[1, {channels}, {6 // stride}, 7]):
    for n, o, i, j in grid(1, {channels}, {6 // stride}, 7):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = cast(fill(x[n, o, {stride}*i + u - 1, j + v - 1], u8(0)), f32) * cast(w[o, u, v], f32)
            total0 = total0 + term0
        y[n, o, i, j] = cast(total0, i32)
""")


BYTES = """
def product(x: u8[1, 8], w: i8[3], /, y: f32[8]):
    for j in grid(8):
        for v in unordered(3):
            total0 = start(0.0)
            term0 = IMAGE * cast(w[v], f32)
            total0 = total0 + term0
        y[j] = total0
"""


@pytest.mark.parametrize("halo", [0, 1])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
def test_products_of_bytes_past_a_border_are_left_out(target: TargetInfo, stride: int, halo: int) -> None:
    computation = depthwise_of_bytes(6, stride)

    assert padded_factor(computation.stages[0]) == (0, "w")
    assert_right(computation, target, image_layouts(computation, target.lanes(4), halo), ("w",), skip=0)


@pytest.mark.parametrize("image", ["(cast({}, f32) - 1.0)", "cast(cast({}, f16), f32)"])
def test_products_with_other_floats_of_bytes_stay(image: str) -> None:
    (stage,) = parse_computation(BYTES.replace("IMAGE", image.format("fill(x[0, j + v - 1], u8(0))"))).stages

    assert padded_factor(stage) is None


SMALL = (
    convolution((1, 2, 4, 5), 5, 3, 1, 1),
    convolution((1, 2, 4, 5), 5, 3, 2, 1, "sequential"),
    depthwise((1, 5, 4, 4), 1, 1),
    parse_computation(TEXTS["product of rows"]),
    parse_computation(TEXTS["sum of planes"]),
    parse_computation(TEXTS["product of integers"]),
    parse_computation(TEXTS["largest of rows"]),
    parse_computation(TEXTS["chain"]),
)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(SMALL), st.booleans())
def test_every_legal_schedule_computes_what_the_stage_means(
    data: st.DataObject, computation: Computation, is_image: bool
) -> None:
    schedule = data.draw(schedules(computation))
    layouts = image_layouts(computation, 4, 1) if is_image and len(computation.inputs[0].shape) == 4 else {}
    constants = tuple(t.name for t in computation.inputs if t.name in ("w", "b"))
    assert_right(computation, replace(FOUR, registers=1000), layouts, constants, schedule)
