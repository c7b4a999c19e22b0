"""Sums of floats that no order of summation changes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def total(values: Iterable[float]) -> float:
    """Return the sum rounded once; infinities and NaN follow IEEE 754."""
    listed = list(values)
    # fsum knows no opposite infinities.
    return math.fsum(listed) if all(map(math.isfinite, listed)) else sum(listed)
