"""Whether two places made the same of a program: bit for bit where that is defined, else nearly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openinfer.simulate.values import Tensor
from openinfer.testing.random_programs.precision import DIVIDED, EXACT, NEAR, SIGNS, UNKNOWN
from openinfer.testing.random_programs.running import Failed, Step
from openinfer.testing.random_programs.sample import Array

TOLERANCE = {"f8": 0.5, "bf16": 0.05, "f16": 0.01, "f32": 1e-3, "f64": 1e-3}
"""Tolerance relative to the greatest magnitude, for functions of a library and for sums in another order."""

EXACT_LEVELS: Mapping[str, int] = {}
"""The levels where every bit of every variable is the same."""


def differences(
    expected: Sequence[Step],
    found: Sequence[Step],
    levels: Mapping[str, int] = EXACT_LEVELS,
    *,
    reach: float = 1.0,
    calm: bool = True,
    first: int = 0,
) -> list[str]:
    """Return how the results of steps differ, a line for each value or error that does.

    Args:
        reach: the magnitude in whose units cancellation is judged.
        calm: whether nothing overflows.
        first: the number of the first step.
    """
    lines: list[str] = []
    for number, (left, right) in enumerate(zip(expected, found, strict=True), first):
        if isinstance(left, Failed) or isinstance(right, Failed):
            lines += [] if left == right else [f"step {number}: {_ended(right)}, expected {_ended(left)}"]
            continue
        for name in left.keys() | right.keys():
            line = _differs(left.get(name), right.get(name), levels.get(name, EXACT), reach=reach, calm=calm)
            lines += [] if line is None else [f"step {number}, {name}: {line}"]
    return lines


def _ended(step: Step) -> str:
    return f"the error {step}" if isinstance(step, Failed) else "no error"


def _differs(expected: Tensor | None, found: Tensor | None, level: int, *, reach: float, calm: bool) -> str | None:
    if expected is None or found is None:
        return f"{'left out' if found is None else 'there'}, expected it {'there' if found is None else 'left out'}"
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        return f"{found.dtype}{list(found.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if level >= UNKNOWN:
        return None
    left, right = expected.storage.reshape(-1), found.storage.reshape(-1)
    if not expected.dtype.is_float and level >= DIVIDED:
        left, right = expected.array.reshape(-1), found.array.reshape(-1)
        wrong = np.abs(left.astype(np.int64) - right.astype(np.int64)) > 1
    elif not expected.dtype.is_float:
        wrong = left != right
    elif level == EXACT:
        wrong = ~((_codes(left) == _codes(right)) | (np.isnan(left) & np.isnan(right)))
    elif level == SIGNS:
        wrong = ~((left == right) | (np.isnan(left) & np.isnan(right)))
    else:
        wrong = ~_near(left, right, TOLERANCE[expected.dtype.name] * (level - NEAR + 1), reach=reach, calm=calm)
    if not wrong.any():
        return None
    place = int(wrong.argmax())
    return f"element {place} is {right[place]!r}, expected {left[place]!r} ({int(wrong.sum())} of {wrong.size} differ)"


def _codes(values: Array) -> Array:
    return values.view(f"u{values.itemsize}") if values.size else values


def _near(expected: Array, found: Array, tolerance: float, *, reach: float, calm: bool) -> Array:
    """Return where floats are near; where they are not calm, those that overflowed on the way are not compared."""
    with np.errstate(all="ignore"):
        left, right = expected.astype(np.float64), found.astype(np.float64)
        finite = np.isfinite(left) & np.isfinite(right)
        most = max(reach, float(np.abs(left[finite]).max(initial=0.0)))
        close = finite & (np.abs(left - right) <= tolerance * most)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        return close | same if calm else close | same | ~finite
