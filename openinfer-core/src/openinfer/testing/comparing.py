"""Whether what a device computed is what an oracle expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.ops.calls import compute_type
from openinfer.testing.values import FORMATS, exact, stored

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.testing.cases import Case
    from openinfer.testing.oracle import Exact
    from openinfer.testing.values import Array

EXACT = frozenset({"arithmetic", "bitwise", "comparison", "mutation", "movement"})
"""Categories of operators that leave no choice: every bit of the result is defined."""

ELEMENTWISE_ULPS, OTHER_ULPS = 4.0, 64.0
"""Units in the last place of the compute type that other floating results may be off: of the element itself, and, for
activations and for what sums, of the greatest magnitude that goes into it."""


def mismatch(case: Case, category: str, expected: Exact, found: Array, dtype: DType, reach: float) -> str | None:
    """Return what is wrong with an output, or None.

    ``reach`` is the greatest finite magnitude among the inputs of the case, in whose units cancellation is judged.
    """
    if tuple(found.shape) != tuple(expected.shape):
        return f"{case}: shape {list(found.shape)}, expected {list(expected.shape)}"
    with np.errstate(all="ignore"):
        wanted = stored(expected, dtype)
        wrong = ~_same(found, wanted)
        if dtype.is_float and category not in EXACT and wrong.any():
            wrong &= ~_near(expected, exact(found, dtype), dtype, category, reach)
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    total = int(wrong.sum())
    return (
        f"{case}: element {list(where)} is {found[where]!r}, expected {wanted[where]!r} ({total} of {wrong.size} wrong)"
    )


def _same(found: Array, wanted: Array) -> Array:
    equal = np.asarray(found == wanted)
    if wanted.dtype.kind in "biu":
        return equal
    return equal | (np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64)))


def _near(expected: Exact, found: Exact, dtype: DType, category: str, reach: float) -> Array:
    """Return where a float is as near to the exact value as the rounding of its computation and of its type allows."""
    computed, ulps = compute_type(dtype), ELEMENTWISE_ULPS if category == "function" else OTHER_ULPS
    scale = np.abs(expected)
    if category != "function":
        scale = np.maximum(scale, min(max(reach, _magnitude(expected)), 1e30))
    allowed = ulps * _spacing(scale, computed)
    if computed is not dtype:
        allowed = allowed + 0.5 * _spacing(np.abs(expected), dtype)
    close = np.abs(found - expected) <= allowed
    # Beside the greatest number of the type, an infinity is as near as it gets.
    edge = np.isinf(found) & (np.sign(found) == np.sign(expected))
    beyond = np.isinf(exact(stored(expected + np.sign(expected) * allowed, dtype), dtype))
    return np.asarray(close | (edge & beyond))


def _magnitude(values: Exact) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def _spacing(magnitude: Exact, dtype: DType) -> Exact:
    """Return the distance between neighbours of the type at some magnitudes."""
    form = FORMATS[dtype.name]
    finite = np.where(np.isfinite(magnitude), magnitude, 1.0)
    return np.exp2(np.floor(np.log2(np.maximum(finite, form.normal))) - form.fraction)
