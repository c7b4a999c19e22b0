"""The error function on arrays, which NumPy lacks.

``erf(x) = x g(x^2)`` where ``g`` is smooth, so a Chebyshev series of ``g`` over the squares up to 36 (where erf is 1 in
double precision) keeps the relative error small down to zero. The series interpolates the C library's ``erf``.
Measured against that: at most 2e-15 relative.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_LIMIT = 6.0
_COUNT = 40


@functools.cache
def _coefficients() -> tuple[float, ...]:
    """Return the Chebyshev coefficients of ``g``, from its values at the Chebyshev points of the first kind."""
    values = [_g((1.0 + _cosine(2 * point + 1)) * _LIMIT * _LIMIT / 2.0) for point in range(_COUNT)]
    series = [
        2.0 / _COUNT * math.fsum(value * _cosine(order * (2 * point + 1)) for point, value in enumerate(values))
        for order in range(_COUNT)
    ]
    return (series[0] / 2.0, *series[1:])


def _cosine(steps: int) -> float:
    """Return the cosine of ``steps`` times pi over twice the count; whole turns are taken off exactly."""
    steps %= 4 * _COUNT
    if steps > 2 * _COUNT:
        steps = 4 * _COUNT - steps
    if steps > _COUNT:
        return -_cosine(2 * _COUNT - steps)
    return math.sin(math.pi * (_COUNT - steps) / (2 * _COUNT))


def _g(square: float) -> float:
    root = math.sqrt(square)
    return math.erf(root) / root


def erf(out: npt.NDArray[Any], scratch: Sequence[npt.NDArray[np.float64]], x: npt.NDArray[Any]) -> None:
    """Write the error function of ``x`` to ``out``, by Clenshaw's recurrence in five double arrays of its shape."""
    clipped, argument, current, previous, product = scratch
    np.clip(x, -_LIMIT, _LIMIT, out=clipped, casting="unsafe")
    np.multiply(clipped, clipped, out=argument)
    np.multiply(argument, 4.0 / (_LIMIT * _LIMIT), out=argument)
    np.subtract(argument, 2.0, out=argument)  # twice the argument of the series
    first, *rest = _coefficients()
    current.fill(0.0)
    previous.fill(0.0)
    for coefficient in reversed(rest):
        np.multiply(argument, current, out=product)
        np.subtract(product, previous, out=previous)
        np.add(previous, coefficient, out=previous)
        current, previous = previous, current
    np.multiply(argument, 0.5, out=argument)
    np.multiply(argument, current, out=argument)
    np.subtract(argument, previous, out=argument)
    np.add(argument, first, out=argument)
    np.multiply(argument, clipped, out=argument)
    np.clip(argument, -1.0, 1.0, out=argument)
    np.copyto(out, argument, casting="same_kind")
