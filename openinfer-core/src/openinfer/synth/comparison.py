"""Comparison of the outputs of a program with those expected: of its source with the simulator, or with an original."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import dtype_of_array
from openinfer.errors import SynthesisError
from openinfer.tolerances import EXACT, OF_OUTPUTS, Tolerance

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from openinfer.synth.target import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far an output is from what was expected.

    Attributes:
        elements: elements in all.
        largest: largest absolute difference of two elements; of integers, in steps from one to the next.
        relative: ``largest`` as a share of the largest finite magnitude that was expected.
        tolerance: what is requested; its relative part is a share of the same magnitude.
        allowed: largest difference that is within it.
        beyond: elements further apart than that.
        mismatched: elements of which one is NaN or infinite and the other is not the same.
        not_finite: elements that were expected to be NaN or infinite.
        steps: of integers, how many elements are how many steps apart: pairs of steps and elements, fewest steps first.
        is_integer: whether elements are integers or bools.
        shapes: found and expected, where they differ; there is no other difference then.
    """

    name: str
    elements: int
    largest: float
    relative: float
    tolerance: Tolerance
    allowed: float
    beyond: int
    mismatched: int = 0
    not_finite: int = 0
    steps: tuple[tuple[int, int], ...] = ()
    is_integer: bool = False
    shapes: tuple[list[int], list[int]] | None = None

    @property
    def within(self) -> bool:
        return not self.mismatched and not self.beyond and self.shapes is None


def compare(name: str, expected: Array, found: Array, tolerance: Tolerance | None = None) -> Difference:
    """Return how far ``found`` is from ``expected`` (same element type); NaN equals NaN.

    ``tolerance`` takes the place of the one of the element type.
    """
    if expected.shape != found.shape:
        shapes = list(found.shape), list(expected.shape)
        return Difference(
            name=name,
            elements=0,
            largest=float("inf"),
            relative=float("inf"),
            tolerance=tolerance or EXACT,
            allowed=0.0,
            beyond=0,
            shapes=shapes,
        )
    left, right = expected.reshape(-1), found.reshape(-1)
    dtype = dtype_of_array(expected)
    allowed = tolerance or OF_OUTPUTS.get(dtype.name if dtype else "", EXACT)
    if expected.dtype.kind in "biu":
        return _integers(name, left, right, allowed)
    return _floats(name, left.astype(np.float64), right.astype(np.float64), allowed)


def compare_steps(name: str, expected: Sequence[Array], found: Array, tolerance: Tolerance | None = None) -> Difference:
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


def worst(differences: Iterable[Difference]) -> Difference:
    """Return the difference that is largest as a share of what is allowed of it."""
    return max(differences, key=_badness)


def united(differences: Sequence[Difference]) -> Difference:
    """Return the difference of all elements, given those of groups of them: the worst, with what is beyond in any."""
    return replace(
        worst(differences),
        elements=sum(difference.elements for difference in differences),
        beyond=sum(difference.beyond for difference in differences),
        mismatched=sum(difference.mismatched for difference in differences),
        not_finite=sum(difference.not_finite for difference in differences),
    )


def _badness(difference: Difference) -> tuple[bool, int, float]:
    share = float("inf") if difference.largest else 0.0
    if difference.allowed:
        share = difference.largest / difference.allowed
    return difference.shapes is not None, difference.mismatched, share


def _integers(name: str, left: Array, right: Array, tolerance: Tolerance) -> Difference:
    unequal = left != right
    pairs = zip(left[unequal].tolist(), right[unequal].tolist(), strict=True)
    steps = Counter(abs(int(a) - int(b)) for a, b in pairs)
    largest = max(steps, default=0)
    magnitude = max((abs(int(a)) for a in left.tolist()), default=0) if steps else 0
    allowed = max(tolerance.absolute, tolerance.relative * magnitude)
    return Difference(
        name=name,
        elements=left.size,
        largest=float(largest),
        relative=largest / max(magnitude, 1),
        tolerance=tolerance,
        allowed=allowed,
        beyond=sum(count for distance, count in steps.items() if distance > allowed),
        steps=tuple(sorted(steps.items())),
        is_integer=True,
    )


def _floats(
    name: str, left: npt.NDArray[np.float64], right: npt.NDArray[np.float64], tolerance: Tolerance
) -> Difference:
    plain = np.isfinite(left) & np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    gaps = np.abs(left[plain] - right[plain])
    largest = float(np.max(gaps, initial=0.0))
    magnitude = float(np.max(np.abs(left[np.isfinite(left)]), initial=0.0))
    allowed = max(tolerance.absolute, tolerance.relative * magnitude)
    return Difference(
        name=name,
        elements=left.size,
        largest=largest,
        relative=0.0 if largest == 0.0 else largest / magnitude if magnitude else float("inf"),
        tolerance=tolerance,
        allowed=allowed,
        beyond=int(np.count_nonzero(gaps > allowed)),
        mismatched=int(np.count_nonzero(~plain & ~same)),
        not_finite=int(np.count_nonzero(~np.isfinite(left))),
    )
