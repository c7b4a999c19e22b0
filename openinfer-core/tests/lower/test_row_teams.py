"""Rows by groups of threads: which stages are one loop program, and that its results are those of the stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from operator_computations import computation

from openinfer.array_types import storage_dtype
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.text import kernel_text
from openinfer.lower import dealt_out
from openinfer.lower.row_teams import in_row_teams
from openinfer.schedule import Threads

if TYPE_CHECKING:
    from openinfer.compute import Computation

    Array = np.ndarray[Any, Any]

SMALL = Threads(busy=64, group=64, subgroup=8)
"""A device whose groups the interpreter, which goes one by one, runs in a moment."""

MEAN = """
def mean(x: f32[{rows}, {columns}], w: f32[{columns}], /, y: f32[{rows}, {columns}], m: f32[{rows}]):
    for i in grid({rows}):
        for j in unordered({columns}):
            total0 = start(0.0)
            term0 = x[i, j] * w[j]
            total0 = total0 + term0
        m[i] = total0 * 0.5
    for i, j in grid({rows}, {columns}):
        y[i, j] = x[i, j] - m[i]
"""

FIRST_ABOVE = """
def first_above(x: f32[3, 64], /, y: i64[3]):
    for i in grid(3):
        for j in sequential(63):
            total0 = start(x[i, 0])
            total1 = start(i64(0))
            term0 = x[i, j + 1]
            term1 = position(j + 1, i64)
            total0 = select(gt(term0, total0 + 1.0), term0, total0)
            total1 = select(gt(term0, total0 + 1.0), term1, total1)
        y[i] = total1
"""
"""The element that wins depends on those before it: parts of a row do not say which is that of the whole."""


def agree(found: Computation, device: Threads = SMALL) -> None:
    """Compare a loop program for teams with the stages, within the error of sums in another order."""
    kernel = in_row_teams(found, device)
    assert kernel is not None
    verify(kernel)
    rng = np.random.default_rng(0)
    inputs: list[Array] = []
    for tensor in found.inputs:
        shape, kind = tuple(extent.evaluate({}) for extent in tensor.shape), np.dtype(storage_dtype(tensor.dtype))
        is_whole = kind.kind in "iu"
        inputs.append(rng.integers(-3, 4, shape).astype(kind) if is_whole else rng.standard_normal(shape).astype(kind))
    expected = evaluate(found, inputs)
    arrays: dict[str, Array] = {
        tensor.name: array.reshape(-1) for tensor, array in zip(found.inputs, inputs, strict=True)
    }
    for buffer in kernel.buffers:
        if buffer.name not in arrays:
            arrays[buffer.name] = np.zeros(buffer.size.evaluate({}), storage_dtype(buffer.dtype))
    interpret(kernel, arrays)
    for tensor, array in zip(found.outputs, expected, strict=True):
        error = 2e-3 if array.dtype == np.float16 else 2e-6
        np.testing.assert_allclose(arrays[tensor.name].reshape(array.shape), array, rtol=error, atol=2e-6)


def test_a_softmax_reads_and_writes_every_element_once() -> None:
    kernel = in_row_teams(computation("softmax", "f32[3, 128]", axis=1), SMALL)

    assert kernel is not None
    assert (
        kernel_text(kernel)
        == """\
def softmax(x0: GLOBAL[f32, 384], y0: GLOBAL[f32, 384]):
    for i0 in GROUP(3):
        for thread0 in LOCAL(16):
            held_x0_0: PRIVATE[f32, 8]
            held_t1_0: PRIVATE[f32, 8]
            for turn0 in UNROLL(2):
                for lane0 in UNROLL(4):
                    held_x0_0[lane0 + 4*turn0] = x0[128*i0 + lane0 + 4*thread0 + 64*turn0]
            total0: f32 = (-inf)
            for turn1 in UNROLL(2):
                for lane1 in UNROLL(4):
                    total0 = maximum(total0, held_x0_0[lane1 + 4*turn1])
            with JOIN(thread0):
                total0 = maximum(total0, peer(total0))
            row0: f32 = total0
            for turn2 in UNROLL(2):
                for lane2 in UNROLL(4):
                    held_t1_0[lane2 + 4*turn2] = exp(held_x0_0[lane2 + 4*turn2] - row0)
            total1: f32 = 0.0
            for turn3 in UNROLL(2):
                for lane3 in UNROLL(4):
                    total1 = total1 + held_t1_0[lane3 + 4*turn3]
            with JOIN(thread0):
                total1 = total1 + peer(total1)
            row1: f32 = total1
            for turn4 in UNROLL(2):
                for lane4 in UNROLL(4):
                    y0[128*i0 + lane4 + 4*thread0 + 64*turn4] = held_t1_0[lane4 + 4*turn4] / row1
"""
    )


@pytest.mark.parametrize("length", [32, 37, 61, 64, 100, 127, 260])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_softmax_of_rows_of_any_length(length: int, dtype: str) -> None:
    agree(computation("softmax", f"{dtype}[2, 3, {length}]", axis=-1))


@pytest.mark.parametrize("length", [4099, 8192])
def test_rows_that_fill_more_than_the_registers_go_through_memory(length: int) -> None:
    agree(computation("softmax", f"f32[1, {length}]", axis=1), Threads(busy=64, group=32))


@pytest.mark.parametrize(("rows", "columns"), [(1, 64), (8, 64), (5, 41), (16, 100)])
def test_what_a_fold_has_made_of_a_row_is_an_output_too(rows: int, columns: int) -> None:
    agree(parse_computation(MEAN.format(rows=rows, columns=columns)))


@pytest.mark.parametrize(
    ("types", "settings"),
    [
        (("f32[1, 64]", "f32[64, 32]"), {}),
        (("f32[1, 64]", "f32[32, 64]"), {"trans_b": True}),
        (("f16[2, 64]", "f16[16, 64]"), {"trans_b": True}),
        (("f16[1, 61]", "f16[5, 61]"), {"trans_b": True}),
        (("i32[1, 64]", "i32[64, 8]"), {}),
        (("f32[2, 1, 40]", "f32[2, 40, 24]"), {}),
    ],
)
def test_products_with_few_rows(types: tuple[str, ...], settings: dict[str, Any]) -> None:
    agree(computation("matmul", *types, **settings))


def test_small_integers_become_factors_in_registers() -> None:
    found = computation("qmatmul", "f32[1, 64]", "i4[16, 64]", "f32[16, 2]", trans_w=True, group_size=32)

    agree(found)
    kernel = in_row_teams(found, SMALL)
    assert kernel is not None
    text = kernel_text(kernel)
    assert "PRIVATE" not in text
    # A scale belongs to all of the neighbours that a thread takes at once.
    assert "x2[(thread0)//4 + " in text


SEARCHES = [{"select_first": first, "nan": nan} for first in (True, False) for nan in ("ignore", "propagate")]


@pytest.mark.parametrize("settings", SEARCHES, ids=str)
@pytest.mark.parametrize("op", ["argmax_axis", "argmin_axis"])
def test_threads_find_the_place_that_one_by_one_is_found(op: str, settings: dict[str, Any]) -> None:
    found = computation(op, "f32[40, 70]", axis=1, **settings)
    kernel = in_row_teams(found, SMALL)
    rng = np.random.default_rng(0)
    # Few values, so that many are equal, and rows that begin, end or are filled with NaN.
    x = rng.choice(np.array([-1, -0.0, 0, 1, np.nan], np.float32), (40, 70), p=(0.3, 0.1, 0.1, 0.3, 0.2))
    x[0], x[1, 0], x[2, -1], x[3:9, 1:] = np.nan, np.nan, np.nan, x[3:9, :1]
    x[20:] = np.where(np.isnan(x[20:]), 1, x[20:])

    assert kernel is not None
    verify(kernel)
    places = np.zeros(40, np.int64)
    interpret(kernel, {"x0": x.reshape(-1), "y0": places})

    assert list(places) == list(evaluate(found, [x])[0])


def test_rows_of_a_search_begin_where_they_lie() -> None:
    kernel = in_row_teams(computation("argmax_axis", "f32[3, 128]", axis=1), SMALL)

    assert kernel is not None
    assert "term0: f32 = x0[128*i0 + lane0 + 4*thread0 + 64*turn0]" in kernel_text(kernel)


def test_lanes_of_a_processor_search_a_row_each() -> None:
    software = Threads(busy=256, group=64, subgroup=8, is_software=True)

    assert in_row_teams(computation("argmax_axis", "f32[8, 4096]", axis=1), software) is None


@pytest.mark.parametrize(
    ("shape", "axis", "settings"),
    [("f16[2, 3, 64]", -1, {"keepdims": True}), ("i8[4, 100]", 1, {}), ("i64[2, 33]", 1, {}), ("f32[600, 64]", 0, {})],
)
def test_searches_of_other_types_and_axes(shape: str, axis: int, settings: dict[str, Any]) -> None:
    agree(computation("argmax_axis", shape, axis=axis, **settings))


@pytest.mark.parametrize(
    "found",
    [
        computation("softmax", "f32[3, 31]", axis=1),
        parse_computation(FIRST_ABOVE),
        computation("conv2d", "f32[1, 16, 9, 9]", "f32[4, 16, 3, 3]", padding=1),
        computation("cumsum", "f32[3, 64]", axis=1),
        parse_computation(MEAN.format(rows=2, columns=64).replace("y[i, j] = x[i, j]", "y[i, j] = y[i, j]")),
        parse_computation(MEAN.format(rows=64, columns=64).replace("- m[i]", "- m[j]")),
        parse_computation(MEAN.format(rows=2, columns=64).replace("unordered", "sequential")),
    ],
)
def test_other_stages_have_other_forms(found: Computation) -> None:
    assert in_row_teams(found, SMALL) is None


def test_stages_without_rows_may_come_between_those_with_rows() -> None:
    found = computation("sdpa", "f32[1, 2, 64, 32]", "f32[1, 2, 64, 32]", "f32[1, 2, 64, 32]")

    names = [some.forms[0][0].name for some in dealt_out(found, Threads(busy=64, group=64))]

    assert names == ["sdpa_0", "sdpa_1", "sdpa_4"]
