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


def test_loops_that_write_results_out_under_conditions_are_not_vectorised():
    head = "for (ptrdiff_t i0 = 0; i0 < n; ++i0) {"
    written_out = [head, "y0[3 * i0] = a ? 0 : b;", "y0[3 * i0 + 1] = a ? 0 : c;", "}"]
    one_result = [head, "y0[i0] = a ? 0 : b;", "y1[i0] = a ? 0 : c;", "}"]
    without_condition = [head, "y0[3 * i0] = b;", "y0[3 * i0 + 1] = c;", "}"]

    assert "    ONE_BY_ONE(i0);" in keep_rolled(written_out, [])
    for lines in (one_result, without_condition):
        assert not any("ONE_BY_ONE" in line for line in keep_rolled(lines, []))
