"""Named sizes: exact integers."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np


def exact_size(value: object) -> int | None:
    """Return a size as an exact integer, or None when it is not an integer (a bool is none)."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # An array can be asked, and is an integer where it holds one.
        return None
