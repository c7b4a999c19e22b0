"""Comparison of a synthesised program's outputs with those of the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import SynthesisError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.synth.target import Array

TOLERANCES: Mapping[str, float] = {"float64": 1e-12, "float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}
"""Largest difference allowed, as a share of the largest magnitude of the tensor; other element types must be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far an output is from what was expected.

    Attributes:
        largest: largest absolute difference of two elements.
        relative: ``largest`` as a share of the largest finite magnitude that was expected.
        tolerance: largest ``relative`` that is allowed.
        mismatched: elements of which one is NaN or infinite and the other is not the same.
    """

    name: str
    largest: float
    relative: float
    tolerance: float
    mismatched: int

    @property
    def within(self) -> bool:
        return not self.mismatched and self.relative <= self.tolerance


def compare(name: str, expected: Array, found: Array, tolerance: float | None = None) -> Difference:
    """Return how far ``found`` is from ``expected`` (same shape and element type); NaN equals NaN.

    ``tolerance`` takes the place of the one of the element type; integers and bools are compared exactly.
    """
    left, right = expected.reshape(-1), found.reshape(-1)
    if expected.dtype.kind in "biu":
        return _exact(name, left, right)
    known = TOLERANCES.get(expected.dtype.name, 0.0)
    return _close(name, left.astype(np.float64), right.astype(np.float64), known if tolerance is None else tolerance)


def compare_steps(name: str, expected: Sequence[Array], found: Array, tolerance: float | None = None) -> Difference:
    """Return how far the steps of an output are from what was expected.

    Args:
        found: the steps stacked on a first axis, or, where their shapes vary, an array of objects.

    Raises:
        SynthesisError: ``verify-mismatch``: a step has another shape.
    """
    if found.dtype != object:
        return compare(name, np.stack(expected), found, tolerance)
    for step, (wanted, given) in enumerate(zip(expected, found, strict=True)):
        if wanted.shape != given.shape:
            message = f"{name!r} is {list(given.shape)} in step {step}, the simulator's is {list(wanted.shape)}"
            raise SynthesisError(message, code="verify-mismatch")
    rows = [np.concatenate([each.reshape(-1) for each in steps]) for steps in (expected, found)]
    return compare(name, rows[0], rows[1], tolerance)


def _exact(name: str, left: Array, right: Array) -> Difference:
    unequal = left != right
    pairs = zip(left[unequal].tolist(), right[unequal].tolist(), strict=True)
    largest = max((abs(int(a) - int(b)) for a, b in pairs), default=0)
    magnitude = max((abs(int(a)) for a in left.tolist()), default=0)
    relative = largest / max(magnitude, 1)
    return Difference(name=name, largest=float(largest), relative=relative, tolerance=0.0, mismatched=0)


def _close(name: str, left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], tolerance: float) -> Difference:
    special = ~(np.isfinite(left) & np.isfinite(right))
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    plain = ~special
    largest = float(np.max(np.abs(left[plain] - right[plain]), initial=0.0))
    magnitude = float(np.max(np.abs(left[plain]), initial=0.0))
    relative = 0.0 if largest == 0.0 else largest / magnitude if magnitude else float("inf")
    return Difference(
        name=name,
        largest=largest,
        relative=relative,
        tolerance=tolerance,
        mismatched=int(np.count_nonzero(special & ~same)),
    )
