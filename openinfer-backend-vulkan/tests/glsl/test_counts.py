"""Numbers of dispatches that depend on counts, as kernels compute them and as hosts do where they know the counts."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.affine import Index, Var
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer_backend_vulkan.glsl.counts import count_var, most_threads, numbering
from openinfer_backend_vulkan.glsl.loop_programs import ITERATIONS, printed
from openinfer_backend_vulkan.glsl.shaders import ShaderTarget, workgroups

TABLE = """
def table(y0: GLOBAL[f32, {size}], *, n, m):
    for i in GROUP({rows}):
        for j in GROUP(m):
            y0[i*m + j] = 1.0
"""
COUNT = Index.of(count_var(1, 1000))
PLAIN = ("n", COUNT, 3)
SIZES = {
    "a count": PLAIN,
    "a sum": ("n", COUNT * 2 + 5, 3),
    "fewer rows": ("n - 4", COUNT, 2),
    "with a size of the host": ("n", COUNT + Index.of(Var("m")), 7),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, 3, 64, 999])
def test_kernels_compute_what_hosts_do(size: str, count: int) -> None:
    rows, counted, columns = SIZES[size]
    text = printed(parse_kernel(TABLE.format(size="4000*m", rows=rows)), ShaderTarget(pushed_words=0))
    kernel = numbering(text, {"n": counted}, registers=2, most_groups=5)
    numbers, n = np.full(len(text.numbers) + 3, -1, np.int32), counted.evaluate({"count1": count, "m": columns})

    parameters = {var.name: columns for var in kernel.parameters}
    interpret(kernel, {"counts": np.array([7, count], np.int32), "numbers": numbers}, parameters)

    values = {"n": n, ITERATIONS: text.iterations({"n": n, "m": columns})}
    written = {place: values[name] for place, name in enumerate(text.numbers) if name in values}
    assert {place: numbers[place] for place in written} == written
    threads = values[ITERATIONS] * text.local
    groups = workgroups(threads, (5, 1 << 20), text.group_size) if threads else (0, 0, 1)
    assert tuple(numbers[-3:]) == groups
    assert threads <= (most_threads(text, {"n": counted}, {"m": columns}) or 0)


def test_a_size_without_a_bound_has_no_bound_of_threads() -> None:
    text = printed(parse_kernel(TABLE.format(size="4000*m", rows="n")))
    assert most_threads(text, {"n": Index.of(Var("n"))}, {"m": 3}) is None
