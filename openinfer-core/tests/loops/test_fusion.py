"""Adjacent loops become one where they share an element and nobody can tell the difference."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.loops import For, Kernel, verify
from openinfer.loops.fusion import fused
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text

HEAD = "def two(x: GLOBAL[f32, 24], s: GLOBAL[f32, 12], c: GLOBAL[f32, 12], y: GLOBAL[f32, 24]):\n"


def kernel(*lines: str) -> Kernel:
    program = parse_kernel(HEAD + "".join(f"    {line}\n" for line in lines))
    verify(program)
    return program


def loops(program: Kernel) -> int:
    return sum(isinstance(statement, For) for statement in program.body)


def results(program: Kernel) -> dict[str, np.ndarray]:
    sizes = {"x": 24, "s": 12, "c": 12, "y": 24}
    arrays = {name: np.arange(size, dtype=np.float32) + 1 for name, size in sizes.items()}
    interpret(program, arrays)
    return arrays


def test_the_sine_and_the_cosine_of_one_angle_share_a_loop() -> None:
    program = kernel(
        "for i in SERIAL(3):",
        "    for j in SERIAL(4):",
        "        s[4*i + j] = sin(x[j])",
        "for k in SERIAL(3):",
        "    for l in SERIAL(4):",
        "        c[4*k + l] = cos(x[l])",
    )
    assert kernel_text(fused(program)) == HEAD + (
        "    for i in SERIAL(3):\n"
        "        for j in SERIAL(4):\n"
        "            s[4*i + j] = sin(x[j])\n"
        "            c[4*i + j] = cos(x[j])\n"
    )


PAIRS = {
    "halves": (
        ("for i in SERIAL(12):", "    y[i] = x[i] - x[i + 12]"),
        ("for j in SERIAL(12):", "    y[j + 12] = x[j + 12] + x[j]"),
    ),
    "neighbours": (
        ("for i in SERIAL(12):", "    y[2*i] = x[2*i] - x[2*i + 1]"),
        ("for j in SERIAL(12):", "    y[2*j + 1] = x[2*j + 1] + x[2*j]"),
    ),
    "halves of rows": (
        ("for i in SERIAL(3):", "    for j in SERIAL(4):", "        y[8*i + j] = x[8*i + j]"),
        ("for k in SERIAL(3):", "    for l in SERIAL(4):", "        y[8*k + l + 4] = x[8*k + l]"),
    ),
}
APART = {
    "the result of the first": (
        ("for i in SERIAL(12):", "    s[i] = x[i]"),
        ("for j in SERIAL(12):", "    c[j] = s[j] + x[j]"),
    ),
    "what the second writes": (
        ("for i in SERIAL(12):", "    s[i] = x[i] + c[i]"),
        ("for j in SERIAL(12):", "    c[j] = x[j]"),
    ),
    "the same places": (
        ("for i in SERIAL(12):", "    y[i] = x[i]"),
        ("for j in SERIAL(12):", "    y[j + 11] = x[j]"),
    ),
    "an element in another iteration": (
        ("for i in SERIAL(12):", "    y[2*i] = x[i]"),
        ("for j in SERIAL(12):", "    y[j + 1] = x[j]"),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_loops_that_store_at_different_places_of_one_buffer_are_joined(name: str) -> None:
    first, second = PAIRS[name]
    program = kernel(*first, *second)
    joined = fused(program)
    verify(joined)
    assert loops(joined) == 1
    assert {k: v.tolist() for k, v in results(joined).items()} == {k: v.tolist() for k, v in results(program).items()}


@pytest.mark.parametrize("name", APART)
def test_loops_that_touch_what_the_other_stores_stay_apart(name: str) -> None:
    first, second = APART[name]
    assert loops(fused(kernel(*first, *second))) == 2


def test_loops_without_an_element_in_common_stay_apart() -> None:
    program = kernel("for i in SERIAL(12):", "    s[i] = x[i]", "for j in SERIAL(12):", "    c[j] = x[j + 12]")
    assert fused(program) == program


def test_loops_of_different_lengths_stay_apart() -> None:
    program = kernel("for i in SERIAL(12):", "    s[i] = x[i]", "for j in SERIAL(11):", "    c[j] = x[j]")
    assert fused(program) == program


def test_a_loop_keeps_its_variable_where_a_loop_within_the_next_one_has_its_name() -> None:
    program = kernel(
        "for j in SERIAL(3):",
        "    s[j] = x[0]",
        "for i in SERIAL(3):",
        "    for j in SERIAL(4):",
        "        y[4*i + j] = x[0] + x[4*i + j]",
    )
    joined = fused(program)
    verify(joined)
    for name, array in results(program).items():
        np.testing.assert_array_equal(results(joined)[name], array)
