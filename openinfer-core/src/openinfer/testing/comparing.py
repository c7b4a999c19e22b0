"""Whether what a device computed is what an oracle expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.float_formats import FORMATS
from openinfer.ops.calls import compute_type
from openinfer.testing.values import exact, stored

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer.testing.expectation import Expected
    from openinfer.testing.oracle import Exact
    from openinfer.testing.values import Array


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floats may be off: so many units in the last place, of the type that they are computed in.

    Attributes:
        ulps: the number; 0: every bit is defined, a NaN counts as any other.
        reach: magnitude in whose units cancellation is judged, where it is greater than that of a result: one for
            all, or for each one its own.
        zero_signs: whether zeros of other sign are wrong.
        error: returns an additional tolerance for each element.
    """

    ulps: float = 0.0
    reach: Exact | float = 0.0
    zero_signs: bool = False
    error: Callable[[], Exact] | None = None


def mismatch(expected: Expected, found: Array, dtype: DType, tolerance: Tolerance) -> str | None:
    """Return what is wrong with an output, or None."""
    if tuple(found.shape) != expected.shape:
        return misshapen(found, expected)
    seen = expected.of(found)
    with np.errstate(all="ignore"):
        wanted = stored(expected.values, dtype)
        wrong = ~_same(seen, wanted, zero_signs=tolerance.zero_signs)
        if dtype.is_float and tolerance.ulps and wrong.any():
            wrong &= ~_near(expected.values, exact(seen, dtype), dtype, tolerance)
    return differences(wrong, seen, wanted, expected)


def misshapen(found: Array, expected: Expected) -> str:
    """Return what is wrong with an output of another shape."""
    return f"shape {list(found.shape)}, expected {list(expected.shape)}"


def differences(wrong: Array, found: Array, wanted: Array, expected: Expected) -> str | None:
    """Return the first of the elements that are wrong, and how many there are; None for none."""
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    place, total = list(expected.place(where)), int(wrong.sum())
    seen = f"{wrong.size}" if expected.places is None else f"the {wrong.size} checked"
    return f"element {place} is {found[where]!r}, expected {wanted[where]!r} ({total} of {seen} wrong)"


def _same(found: Array, wanted: Array, *, zero_signs: bool) -> Array:
    """Return where elements are equal, or both NaN."""
    equal = np.asarray(found == wanted)
    if wanted.dtype.kind in "biu":
        return equal
    here, there = found.astype(np.float64), wanted.astype(np.float64)
    if zero_signs:
        equal &= np.signbit(here) == np.signbit(there)
    return equal | (np.isnan(here) & np.isnan(there))


def _near(expected: Exact, found: Exact, dtype: DType, tolerance: Tolerance) -> Array:
    """Return where a float is as near to the exact value as the rounding of its computation and of its type allows."""
    computed = compute_type(dtype)
    allowed = tolerance.ulps * _spacing(np.maximum(np.abs(expected), tolerance.reach), computed)
    if tolerance.error is not None:
        allowed = allowed + tolerance.error()
    if computed is not dtype:
        allowed = allowed + 0.5 * _spacing(np.abs(expected), dtype)
    close = np.abs(found - expected) <= allowed
    # For results near the largest number of the type, an infinity may be the nearest value.
    edge = np.isinf(found) & (np.sign(found) == np.sign(expected))
    beyond = np.isinf(exact(stored(expected + np.sign(expected) * allowed, dtype), dtype))
    return np.asarray(close | (edge & beyond))


def _spacing(magnitude: Exact, dtype: DType) -> Exact:
    """Return the distance between neighbours of the type at some magnitudes."""
    form = FORMATS[dtype.name]
    finite = np.where(np.isfinite(magnitude), magnitude, 1.0)
    return np.exp2(np.floor(np.log2(np.maximum(finite, form.normal))) - form.fraction)
