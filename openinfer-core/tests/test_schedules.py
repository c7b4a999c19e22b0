"""Schedules: which one is chosen, and that loops under any of them visit every place once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Var
from openinfer.compute import Computation
from openinfer.compute.reading import parse_computation
from openinfer.layout import row_major
from openinfer.loops import Kernel, verify
from openinfer.loops.coalesce import coalesced
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.lower.nests import scheduled
from openinfer.schedule import Loop, Schedule, choose, plain


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
