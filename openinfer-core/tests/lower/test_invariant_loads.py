"""What a loop reads in every iteration is read once before it, unless the loop changes it or may not reach it."""

from __future__ import annotations

import pytest

from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text
from openinfer.lower.invariant_loads import with_invariant_loads

HELD = """
def dotted(x: GLOBAL[f32, 12], y: GLOBAL[f32, 4]):
    for i in GROUP(4):
        total: f32 = 0.0
        for j in SERIAL(3):
            total = total + x[i] * x[i + 4*j]
        y[i] = total
"""
KEPT = {
    "stored in the loop": "y[i] = y[i] + x[i + 4*j]",
    "under a test": "if 0 <= i - 1 < 3:\n                y[i] = x[i]",
}


def test_an_element_that_stays_the_same_is_kept_in_a_register() -> None:
    found = kernel_text(with_invariant_loads(parse_kernel(HELD)))

    before, _, loop = found.partition("for j in SERIAL(3):")
    assert "held0: f32 = x[i]" in before
    assert "held0 * x[i + 4*j]" in loop or "held0 * x[4*j + i]" in loop


@pytest.mark.parametrize("inside", KEPT.values(), ids=KEPT.keys())
def test_other_reads_stay_where_they_are(inside: str) -> None:
    kernel = parse_kernel(f"""
def kept(x: GLOBAL[f32, 12], y: GLOBAL[f32, 4]):
    for i in GROUP(4):
        for j in SERIAL(3):
            {inside}
""")

    assert with_invariant_loads(kernel) == kernel
