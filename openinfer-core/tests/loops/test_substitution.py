"""The indices of statements."""

from __future__ import annotations

from openinfer.loops.reading import parse_kernel
from openinfer.loops.substitution import indices_of, rewritten

NESTED = """
def rows(x: GLOBAL[f32, 12], y: GLOBAL[f32, 12], *, n):
    for i in SERIAL(n):
        for j in SERIAL(4):
            if 0 <= i + j < 3:
                y[4*i + j] = x[j]
"""


def test_walk_finds_the_indices_that_rewriting_changes():
    body = parse_kernel(NESTED).body
    changed = []

    rewritten(body, lambda index: changed.append(index) or index)

    assert [str(index) for index in indices_of(body)] == ["n", "i + j", "3", "4*i + j", "j"]
    assert list(indices_of(body)) == changed
