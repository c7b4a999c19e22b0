"""How far an output is from the expected one, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openinfer.synth.comparison import Difference


def difference_document(difference: Difference) -> dict[str, Any]:
    """Return a difference as JSON knows it: an infinite one is null."""
    return {
        "name": difference.name,
        "largest": _finite(difference.largest),
        "relative": _finite(difference.relative),
        "tolerance": {"absolute": difference.tolerance.absolute, "relative": difference.tolerance.relative},
        "elements": difference.elements,
        "beyond": difference.beyond,
        "mismatched": difference.mismatched,
        "not_finite": difference.not_finite,
        "steps": [{"distance": distance, "elements": elements} for distance, elements in difference.steps],
        "within": difference.within,
    }


def _finite(number: float) -> float | None:
    return number if number != float("inf") else None
