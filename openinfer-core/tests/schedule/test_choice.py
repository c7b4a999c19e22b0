"""Schedules: which one is chosen, and that loops under any of them visit every place once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Var
from openinfer.arch import TargetInfo
from openinfer.compute import Computation
from openinfer.compute.reading import parse_computation
from openinfer.layout import row_major
from openinfer.loops import Bind, Kernel, verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.lower.nests import scheduled
from openinfer.schedule import Loop, Schedule, choose, plain
from openinfer.schedule.cost import AHEAD, STORING
from openinfer.schedule.text import parse_schedule, schedule_text
from openinfer.schedule.tiling import estimated, ranked


def transposition(rows: int, columns: int) -> Computation:
    return parse_computation(f"""
def transposition(x: f32[{columns}, {rows}], /, y: f32[{rows}, {columns}]):
    for i, j in grid({rows}, {columns}):
        y[i, j] = x[j, i]
""")


def chosen(computation: Computation) -> Schedule:
    tensors = (*computation.inputs, *computation.outputs)
    return choose(computation.stages[0], {tensor.name: row_major(tensor.shape) for tensor in tensors})


def test_a_transposition_is_walked_in_strips() -> None:
    i, j = Var("i", 40), Var("j", 50)
    assert chosen(transposition(40, 50)) == Schedule((Loop(i, 16), Loop(j), Loop(i)))


@pytest.mark.parametrize(("rows", "columns"), [(31, 64), (64, 31), (3, 3)])
def test_a_short_transposition_is_walked_in_order(rows: int, columns: int) -> None:
    computation = transposition(rows, columns)
    assert chosen(computation) == plain(computation.stages[0].axes)


@pytest.mark.parametrize(("inner", "expected"), [(80, "i j:80 k j:16=unroll j=lanes"), (1, "j i:3 k i=unroll")])
def test_running_totals_lie_in_lanes_or_are_copies(inner: int, expected: str) -> None:
    """One step along the folded axis reads a row of memory; a single column has its rows side by side."""
    computation = parse_computation(f"""
def scan(x: f32[3, 9, {inner}], /, y: f32[3, 9, {inner}]):
    for i, j in grid(3, {inner}):
        for k in running_unordered(9):
            total0 = start(0.0)
            term0 = x[i, k, j]
            total0 = total0 + term0
        y[i, k, j] = total0
""")
    (stage,) = computation.stages
    known = {name: row_major(computation.tensor(name).shape) for name in "xy"}
    assert schedule_text(choose(stage, known, TargetInfo(vector_nbytes=64, registers=32))) == expected


def test_what_steps_evenly_is_walked_in_order() -> None:
    computation = parse_computation("""
def copy(x: f32[64, 64], /, y: f32[64, 64]):
    for i, j in grid(64, 64):
        y[i, j] = x[i, j]
""")
    assert chosen(computation) == plain(computation.stages[0].axes)


def test_the_rest_of_a_strip_has_loops_of_its_own() -> None:
    assert kernel_text(lowered(transposition(40, 50))) == (
        "def transposition(x: GLOBAL[f32, 2000], y: GLOBAL[f32, 2000]):\n"
        "    for i_0 in SERIAL(2):\n"
        "        for j in SERIAL(50):\n"
        "            for i_1 in SERIAL(16):\n"
        "                y[800*i_0 + 50*i_1 + j] = x[16*i_0 + i_1 + 40*j]\n"
        "    for j in SERIAL(50):\n"
        "        for i_1 in SERIAL(8):\n"
        "            y[50*i_1 + j + 1600] = x[i_1 + 40*j + 32]\n"
    )


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Schedule, Var, Var]:
    rows, columns = Var("i", draw(st.integers(1, 9))), Var("j", draw(st.integers(1, 9)))
    loops: list[Loop] = []
    for axis in (rows, columns):
        steps = draw(st.lists(st.integers(2, 6), max_size=2).map(lambda steps: sorted(steps, reverse=True)))
        loops += [*(Loop(axis, step) for step in steps), Loop(axis)]
    order = draw(st.permutations(range(len(loops))))
    positions = {axis: iter([loop for loop in loops if loop.axis == axis]) for axis in (rows, columns)}
    return Schedule(tuple(next(positions[loops[number].axis]) for number in order)), rows, columns


@given(schedules())
def test_every_place_is_visited_once(drawn: tuple[Schedule, Var, Var]) -> None:
    schedule, rows, columns = drawn
    assert isinstance(rows.extent, int)
    assert isinstance(columns.extent, int)
    count = rows.extent * columns.extent
    body = parse_kernel(
        f"def k(y: GLOBAL[f32, {count}]):\n"
        f"    for i in SERIAL({rows.extent}):\n"
        f"        for j in SERIAL({columns.extent}):\n"
        f"            y[{columns.extent}*i + j] = y[{columns.extent}*i + j] + 1.0\n"
    )
    outer = body.body[0]
    statements = outer.body[0].body
    kernel = Kernel("k", body.buffers, scheduled(schedule, ((), (), statements)))
    verify(kernel)
    y = np.zeros(count, np.float32)
    interpret(coalesced(kernel), {"y": y})
    np.testing.assert_array_equal(y, np.ones(count))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "for i in SERIAL(3):\n  for j in SERIAL(4):\n    y[4*i + j] = x[4*i + j]",
            "for i in SERIAL(12):\n    y[i] = x[i]",
        ),
        (
            "for i in SERIAL(3):\n  for j in SERIAL(4):\n    y[4*i + j] = x[i]",
            "for i in SERIAL(3):\n  for j in SERIAL(4):\n    y[4*i + j] = x[i]",
        ),
        (
            "for i in SERIAL(3):\n  for j in SERIAL(1):\n    for k in SERIAL(4):\n      y[4*i + j + k] = 0.0",
            "for i in SERIAL(12):\n    y[i] = 0.0",
        ),
        (
            "for i in SERIAL(3):\n  for j in SERIAL(4):\n    y[4*i + j] = guarded(x[i + j], 0.0, 0 <= j - i < 3)",
            "for i in SERIAL(3):\n  for j in SERIAL(4):\n    y[4*i + j] = guarded(x[i + j], 0.0, 0 <= j - i < 3)",
        ),
        (
            "for i in SERIAL(3):\n  t: f32 = x[i]\n  for j in SERIAL(4):\n    y[4*i + j] = t",
            "for i in SERIAL(3):\n  t: f32 = x[i]\n  for j in SERIAL(4):\n    y[4*i + j] = t",
        ),
        (
            "for i in SERIAL(1):\n  for j in SERIAL(i + 2):\n    for k in SERIAL(j + 1):\n      y[j + k] = x[i]",
            "for j in SERIAL(2):\n  for k in SERIAL(j + 1):\n    y[j + k] = x[0]",
        ),
    ],
)
def test_loops_are_joined_where_indices_step_evenly_on(before: str, after: str) -> None:
    header = "def k(x: GLOBAL[f32, 12], y: GLOBAL[f32, 12]):\n"
    kernels = [parse_kernel(header + "".join(f"  {line}\n" for line in text.splitlines())) for text in (before, after)]
    assert coalesced(kernels[0]) == kernels[1]


def test_tiles_of_a_convolution_divide_its_extents_where_rests_would_make_the_source_long() -> None:
    convolution = parse_computation("""
def convolution(x: f32[34, 34, 16], w: f32[16, 16, 3, 3], /, y: f32[32, 32, 16]):
    for i, j, o in grid(32, 32, 16):
        for c, u, v in unordered(16, 3, 3):
            total0 = start(0.0)
            term0 = x[i + u, j + v, c] * w[o, c, u, v]
            total0 = total0 + term0
        y[i, j, o] = total0
""")
    layouts = {"x": row_major((34, 34, 16)), "y": row_major((32, 32, 16))}
    stage = convolution.stages[0]

    schedule = choose(stage, layouts, TargetInfo(vector_nbytes=64, registers=32, fma=True))

    steps = {loop.axis.name: loop.step for loop in schedule.loops if loop.bind is Bind.SERIAL}
    assert {32 % steps["i"], 32 % steps["j"]} == {0}


@pytest.mark.parametrize(
    ("operands", "inner"),
    [("x[i + u, c], w[c, u]", "c"), ("x[i + u, 0], w[c, u]", "i")],
    ids=["each channel of its own", "channels of the same places"],
)
def test_blocks_of_lanes_that_share_nothing_follow_one_another_by_address(operands: str, inner: str) -> None:
    x, w = operands.split("], ")
    stage = parse_computation(f"""
def windows(x: f32[66, 64], w: f32[64, 3], /, y: f32[64, 64]):
    for i, c in grid(64, 64):
        for u in unordered(3):
            total0 = start(0.0)
            term0 = {x}] * {w}
            total0 = total0 + term0
        y[i, c] = total0
""").stages[0]
    layouts = {"x": row_major((66, 64)), "y": row_major((64, 64))}

    schedule = choose(stage, layouts, TargetInfo(vector_nbytes=64, registers=32, fma=True))

    serial = [loop.axis.name for loop in schedule.loops if loop.bind is Bind.SERIAL and loop.axis in stage.axes]
    assert serial[-1] == inner


def test_rows_that_a_window_reads_again_are_not_moved_again() -> None:
    stage = parse_computation("""
def windows(x: f32[258, 34, 16], w: f32[16, 3, 3], /, y: f32[256, 32, 16]):
    for i, j, c in grid(256, 32, 16):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = x[i + u, j + v, c] * w[c, u, v]
            total0 = total0 + term0
        y[i, j, c] = total0
""").stages[0]
    layouts = {"x": row_major((258, 34, 16)), "y": row_major((256, 32, 16))}
    far = TargetInfo(vector_nbytes=64, registers=32, fma=True)
    near = replace(far, l1_nbytes=1 << 22)
    axes = (*stage.axes, *(() if stage.fold is None else stage.fold.axes))
    tile = "i:3 j:4 c:16 u v i=unroll j=unroll c=lanes"
    serial, written = parse_schedule(tile, axes), parse_schedule(tile.replace("u v", "u=unroll v=unroll"), axes)

    far_cycles = [estimated(stage, layouts, far, 16, schedule) or 0 for schedule in (serial, written)]
    near_cycles = [estimated(stage, layouts, near, 16, schedule) or 0 for schedule in (serial, written)]

    # The image comes from the second cache, 30 places of it for each tile of 12 whose windows are written out or not.
    assert far_cycles[1] > near_cycles[1]
    assert far_cycles[0] - far_cycles[1] == pytest.approx(near_cycles[0] - near_cycles[1])


@pytest.mark.parametrize(("channels", "collide"), [(128, True), (112, False)])
def test_what_a_window_reads_again_is_loaded_from_the_second_cache_where_few_sets_of_the_first_have_its_lines(
    channels: int, collide: bool
) -> None:
    stage = parse_computation(f"""
def windows(x: f32[58, 58, {channels}], w: f32[{channels}, 3, 3], /, y: f32[56, 56, {channels}]):
    for i, j, c in grid(56, 56, {channels}):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = x[i + u, j + v, c] * w[c, u, v]
            total0 = total0 + term0
        y[i, j, c] = total0
""").stages[0]
    layouts = {"x": row_major((58, 58, channels)), "y": row_major((56, 56, channels))}
    target = TargetInfo(vector_nbytes=64, registers=32, fma=True)
    axes = (*stage.axes, *(() if stage.fold is None else stage.fold.axes))
    tile = "i:2 j:14 c:16 u v i=unroll j=unroll c=lanes"
    serial, written = parse_schedule(tile, axes), parse_schedule(tile.replace("u v", "u=unroll v=unroll"), axes)

    again, once = (estimated(stage, layouts, target, 16, schedule) or 0 for schedule in (serial, written))

    # Places of 512 bytes have an eighth of the sets: 64 lines, as many as a tile of 2x14 reads. Each of its 28 loads
    # of a place in the window then takes two cycles.
    tiles = 28 * 4 * channels // 16
    assert (again > tiles * 9 * 28 * 2) is collide
    assert once < tiles * 9 * 28 * 2


def test_tiles_wait_for_weights_from_past_the_second_cache_unless_they_walk_along_few_places() -> None:
    stage = parse_computation("""
def product(x: f32[8, 7, 1040], w: f32[1024, 1040], /, y: f32[8, 7, 1024]):
    for i, j, o in grid(8, 7, 1024):
        for c in unordered(1040):
            total0 = start(0.0)
            term0 = x[i, j, c] * w[o, c]
            total0 = total0 + term0
        y[i, j, o] = total0
""").stages[0]
    layouts = {"x": row_major((8, 7, 1040)), "y": row_major((8, 7, 1024))}
    far = TargetInfo(vector_nbytes=64, registers=32, fma=True)
    near = replace(far, l2_nbytes=1 << 23)
    axes = (*stage.axes, *(() if stage.fold is None else stage.fold.axes))
    seven, fourteen = (
        parse_schedule(f"o:32 i{step} j:7 c i=unroll j=unroll o:16=unroll o=lanes", axes) for step in ("", ":2")
    )

    def waiting(schedule: Schedule) -> float:
        return sum(sign * (estimated(stage, layouts, at, 16, schedule) or 0) for sign, at in ((1, far), (-1, near)))

    # Two cycles for each line of 4 MiB, once: the tiles after the first one find them in the second cache.
    assert waiting(fourteen) == pytest.approx(2 * 1024 * 1040 * 4 / 64)
    assert waiting(seven) == 0
    schedule = choose(stage, layouts, far)
    assert (
        prod(
            (schedule.span(n) or 1)
            for n, loop in enumerate(schedule.loops)
            if loop.axis.name in "ij" and loop.bind is Bind.UNROLL
        )
        < 8
    )


def test_tiles_wait_for_an_image_from_past_the_second_cache_unless_they_are_narrow() -> None:
    stage = parse_computation("""
def windows(x: f32[113, 113, 64], w: f32[64, 3, 3], /, y: f32[56, 56, 64]):
    for i, j, c in grid(56, 56, 64):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = x[2*i + u, 2*j + v, c] * w[c, u, v]
            total0 = total0 + term0
        y[i, j, c] = total0
""").stages[0]
    layouts = {"x": row_major((113, 113, 64)), "y": row_major((56, 56, 64))}
    far = TargetInfo(vector_nbytes=64, registers=32, fma=True)
    near = replace(far, l2_nbytes=1 << 23)
    axes = (*stage.axes, *(() if stage.fold is None else stage.fold.axes))
    narrow, wide = (
        parse_schedule(f"i:{i} j:{j} c:16 u v i=unroll j=unroll c=lanes", axes) for i, j in ((4, 2), (2, 4))
    )

    def waiting(schedule: Schedule) -> float:
        return sum(sign * (estimated(stage, layouts, at, 16, schedule) or 0) for sign, at in ((1, far), (-1, near)))

    # Of eight places of a row that the next tile reads four are there in time; each line is waited for once.
    assert waiting(wide) == pytest.approx(2 * 113 * 113 * 64 * 4 / 64 / 2)
    assert waiting(narrow) == 0


def test_windows_whose_places_pass_by_leave_registers_for_those_that_are_loaded_ahead() -> None:
    stage = parse_computation("""
def windows(x: f32[30, 30, 64], w: f32[64, 3, 3], /, y: f32[28, 28, 64]):
    for i, j, c in grid(28, 28, 64):
        for u, v in unordered(3, 3):
            total0 = start(0.0)
            term0 = x[i + u, j + v, c] * w[c, u, v]
            total0 = total0 + term0
        y[i, j, c] = total0
""").stages[0]
    layouts = {"x": row_major((30, 30, 64)), "y": row_major((28, 28, 64))}

    found = [s for _, s in ranked(stage, layouts, TargetInfo(vector_nbytes=64, registers=32, fma=True), 16)]

    streaming = [schedule for schedule in found if schedule.stream is not None]
    assert streaming
    for schedule in streaming:
        copies = {n: (schedule.span(n) or 1) for n, loop in enumerate(schedule.loops) if loop.bind is Bind.UNROLL}
        totals = prod(count for n, count in copies.items() if schedule.loops[n].axis in stage.axes)
        weights = prod(count for n, count in copies.items() if schedule.loops[n].axis not in stage.axes)
        assert totals + weights + 32 // AHEAD < 32


def test_lanes_lie_along_the_terms_where_results_side_by_side_read_elements_that_lie_apart() -> None:
    stage = parse_computation("""
def scores(q: f32[4, 32], k: f32[4, 201, 32], /, y: f32[4, 201]):
    for h, t in grid(4, 201):
        for d in unordered(32):
            total0 = start(0.0)
            term0 = q[h, d] * k[h, t, d]
            total0 = total0 + term0
        y[h, t] = total0
""").stages[0]
    layouts = {"q": row_major((4, 32)), "k": row_major((4, 201, 32)), "y": row_major((4, 201))}

    schedule = choose(stage, layouts, TargetInfo(vector_nbytes=64, registers=32, fma=True))

    assert [loop.axis.name for loop in schedule.loops if loop.bind is Bind.LANES] == ["d"]


def test_tiles_leave_registers_for_what_is_done_to_their_totals() -> None:
    stage = parse_computation("""
def product(x: f32[60, 8], w: f32[8, 16], b: f32[16], /, y: f32[60, 16]):
    for i, o in grid(60, 16):
        for c in unordered(8):
            total0 = start(0.0)
            term0 = x[i, c] * w[c, o]
            total0 = total0 + term0
        v0 = total0 + b[o]
        y[i, o] = select(lt(v0, 0.0), 0.0, v0)
""").stages[0]
    layouts = {"x": row_major((60, 8)), "b": row_major((16,)), "y": row_major((60, 16))}
    target = TargetInfo(vector_nbytes=64, registers=32, fma=True)

    schedule = choose(stage, layouts, target)

    (rows,) = [loop.step for loop in schedule.loops if loop.axis.name == "i" and loop.bind is Bind.SERIAL]
    assert rows + STORING <= target.registers


@pytest.mark.parametrize(
    ("term", "instructions", "most"),
    [
        ("x[t, c]", 1, 32),
        ("maximum(i32(-128), shr(x[t, c] * i32(3) + z[t, c] * i32(5) + i32(7), i32(2)))", 7, 80),
    ],
)
def test_a_loop_over_terms_is_written_out_for_its_end_as_far_as_terms_are_short(
    term: str, instructions: int, most: int
) -> None:
    """That saves the few instructions of the loop's end, which are a small part of many long terms."""
    stage = parse_computation(f"""
def sums(x: i32[64, 64], z: i32[64, 64], /, y: i32[64]):
    for c in grid(64):
        for t in unordered(64):
            total0 = start(i32(0))
            term0 = {term}
            total0 = total0 + term0
        y[c] = total0
""").stages[0]
    layouts = {"x": row_major((64, 64)), "z": row_major((64, 64)), "y": row_major((64,))}

    schedule = choose(stage, layouts, TargetInfo(vector_nbytes=1, registers=22, fpu="none"))

    copies = prod(schedule.span(n) or 1 for n, loop in enumerate(schedule.loops) if loop.bind is Bind.UNROLL)
    assert most / 2 < copies * instructions <= most


@pytest.mark.parametrize(("dsp", "copies"), [(False, 64), (True, 8)])
def test_totals_that_fill_the_registers_leave_terms_to_be_computed_in_order(dsp: bool, copies: int) -> None:
    """So many are written out as the compiler does not read ahead, on cores without products of pairs."""
    stage = parse_computation("""
def product(x: i32[64], w: i32[64, 64], /, y: i32[64]):
    for c in grid(64):
        for t in unordered(64):
            total0 = start(i32(0))
            term0 = x[t] * w[t, c]
            total0 = total0 + term0
        y[c] = total0
""").stages[0]
    layouts = {"x": row_major((64,)), "w": row_major((64, 64)), "y": row_major((64,))}
    target = TargetInfo(vector_nbytes=1, registers=32, integer_registers=12, fpu="single", dsp=dsp)

    schedule = choose(stage, layouts, target)

    unrolled = (schedule.span(n) or 1 for n, loop in enumerate(schedule.loops) if loop.bind is Bind.UNROLL)
    assert prod(unrolled) == copies
