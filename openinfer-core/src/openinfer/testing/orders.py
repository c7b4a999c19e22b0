"""Computations, as text, whose results depend on the order of their terms."""

RUNNING = """
def running(x: i32[3, 4, 2], /, y: i32[3, 4, 2]):
    for i, j in grid(3, 2):
        for k in running_sequential(4):
            total0 = start(i32(0))
            term0 = x[i, k, j]
            total0 = total0 + term0
            y[i, k, j] = total0
"""
"""A running total along an axis in the middle."""

UPDATED = """
def updated(x: i32[4, 3], p: i64[6], u: i32[6, 3], /, y: i32[4, 3]):
    for i, j in grid(4, 3):
        y[i, j] = x[i, j]
    for i, j in grid(6, 3):
        q = lookup(p[i], 4, 'places are 0 to 3')
        y[q, j] = y[q, j] + u[i, j]
"""
"""Rows that are updated at looked-up places, in the order of the updates."""
