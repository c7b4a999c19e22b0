"""Loops that are kept from being unrolled: those that hold a condition, or are under one."""

from __future__ import annotations

import pytest

from openinfer_synth_c.rolled_loops import keep_rolled, uses_rolled

LOOP = "for (size_t i = 0; i < 3; ++i) {"
KEPT = f"ROLLED {LOOP}"


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ([LOOP, LOOP, "y[i] += x[i] * w[i];", "}", "}"], []),
        ([LOOP, LOOP, "y[i] = i < 2 ? x[i] : 0;", "}", "}", LOOP, "y[i] = 0;", "}"], [0, 1]),
        ([LOOP, "if (i < 2) {", LOOP, "y[i] = x[i];", "}", "}", "else {", LOOP, "y[i] = 0;", "}", "}", "}"], [0, 2, 7]),
        ([LOOP, "if (i < 2) { continue; }", LOOP, "y[i] = x[i];", "}", "}", LOOP, "}"], [0, 2]),
        ([LOOP, "y[i] = x[i] && w[i]; /* { */", "}"], [0]),
        ([LOOP, "/* is it? */", "y[i] = sqrtf(x[i]);", "}"], []),
        ([LOOP, "y[i] = oi_minimum_f32(x[i], w[i]);", "}"], [0]),
        ([LOOP, "y[i] = oi_f32_from_f64(x[i]);", "}"], []),
    ],
)
def test_the_loops_that_are_kept(lines, kept):
    found = keep_rolled(lines, ["oi_minimum_f32", "oi_f32_from_f64"])

    assert [number for number, line in enumerate(found) if line == KEPT] == kept
    assert [line for line in found if line != KEPT] == [line for n, line in enumerate(lines) if n not in kept]
    assert uses_rolled(found) == bool(kept)
