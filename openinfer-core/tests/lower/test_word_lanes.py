"""Neighbouring places by one thread: how they are dealt out, and that results are those of the stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.dtypes import BY_NAME
from openinfer.loops import verify
from openinfer.loops.interpret import interpret
from openinfer.loops.text import kernel_text
from openinfer.lower import threaded

SUM = """
def sum(x: {x}[{n}], w: {x}[{n}], /, y: {y}[{n}]):
    for i in grid({n}):
        y[i] = cast(x[i] + w[i], {y})
"""
BIASED = """
def biased(x: f32[3, {n}], w: f32[{n}], s: f32[3], /, y: f32[3, {n}]):
    for i, j in grid(3, {n}):
        y[i, j] = x[i, j] * s[i] + w[j]
"""
SHIFTED = """
def shifted(x: f32[{n}], /, y: f32[{n}]):
    for i in grid({n}):
        y[i] = fill(x[i - 1], 0.0)
"""


def program(text: str) -> str:
    (kernel,) = threaded(parse_computation(text), words=True)
    return kernel_text(kernel)


def test_a_thread_has_as_many_neighbours_as_make_16_bytes() -> None:
    assert (
        program(SUM.format(n=14, x="f32", y="f16"))
        == """\
def sum(x: GLOBAL[f32, 14], w: GLOBAL[f32, 14], y: GLOBAL[f16, 14]):
    for i in GROUP(4):
        if 0 <= i < 3:
            for i_lane in UNROLL(4):
                y[4*i + i_lane] = cast(x[4*i + i_lane] + w[4*i + i_lane], f16)
        if 0 <= i - 3 < 1:
            for i_left in SERIAL(2):
                y[4*i + i_left] = cast(x[4*i + i_left] + w[4*i + i_left], f16)
"""
    )


def test_rows_of_whole_words_need_no_test() -> None:
    assert (
        program(BIASED.format(n=8))
        == """\
def biased(x: GLOBAL[f32, 24], w: GLOBAL[f32, 8], s: GLOBAL[f32, 3], y: GLOBAL[f32, 24]):
    for i in GROUP(3):
        for j in GROUP(2):
            for j_lane in UNROLL(4):
                y[8*i + 4*j + j_lane] = x[8*i + 4*j + j_lane] * s[i] + w[4*j + j_lane]
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        BIASED.format(n=7),
        SUM.format(n=3, x="f32", y="f32"),
        SHIFTED.format(n=16),
        SUM.format(n=16, x="f32", y="f32").replace("w[i]", "w[15 - i]"),
    ],
)
def test_other_places_have_a_thread_each(text: str) -> None:
    assert "UNROLL" not in program(text)


@pytest.mark.parametrize("n", [0, 1, 4, 7, 16, 31, 64, 101])
@pytest.mark.parametrize(
    "text",
    [SUM.replace("{x}", "f32").replace("{y}", "f16"), SUM.replace("{x}", "i8").replace("{y}", "f32"), BIASED, SHIFTED],
)
def test_results_are_those_of_the_stages(text: str, n: int) -> None:
    computation = parse_computation(text.format(n=n))
    rng = np.random.default_rng(n)
    inputs: list[np.ndarray[Any, Any]] = []
    for tensor in computation.inputs:
        shape = tuple(extent.evaluate({}) for extent in tensor.shape)
        inputs.append(rng.integers(-9, 9, shape).astype(storage_dtype(BY_NAME[str(tensor.dtype)])))
    (expected,) = evaluate(computation, inputs)
    arrays = {tensor.name: array.reshape(-1) for tensor, array in zip(computation.inputs, inputs, strict=True)}
    arrays["y"] = np.zeros(expected.size, expected.dtype)

    for kernel in threaded(computation, words=True):
        verify(kernel)
        interpret(kernel, arrays)

    assert arrays["y"].tobytes() == expected.tobytes()
