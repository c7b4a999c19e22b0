"""Texts of computations whose stages read one another's results."""

from __future__ import annotations


def softmax(rows: int, columns: int) -> str:
    """Return the text of the softmax of each row."""
    return f"""
def softmax(x: f32[{rows}, {columns}], /, y: f32[{rows}, {columns}]):
    t0: f32[{rows}]
    t1: f32[{rows}, {columns}]
    t2: f32[{rows}]
    for i in grid({rows}):
        for r in unordered({columns}):
            total0 = start()
            term0 = x[i, r]
            total0 = maximum(total0, term0)
        t0[i] = total0
    for i, j in grid({rows}, {columns}):
        t1[i, j] = exp(x[i, j] - t0[i])
    for i in grid({rows}):
        for r in unordered({columns}):
            total0 = start(0.0)
            term0 = t1[i, r]
            total0 = total0 + term0
        t2[i] = total0
    for i, j in grid({rows}, {columns}):
        y[i, j] = t1[i, j] / t2[i]
"""


def sums_of_sums(extent: int, first: int, second: int) -> str:
    """Return the text of sums of windows of ``second`` sums of windows of ``first`` elements."""
    inner, outer = extent - first + 1, extent - first - second + 2
    return f"""
def twice(x: f32[{extent}], /, y: f32[{outer}]):
    t0: f32[{inner}]
    for i in grid({inner}):
        for u in unordered({first}):
            total0 = start(0.0)
            term0 = x[i + u]
            total0 = total0 + term0
        t0[i] = total0
    for i in grid({outer}):
        for u in unordered({second}):
            total0 = start(0.0)
            term0 = t0[i + u]
            total0 = total0 + term0
        y[i] = total0
"""
