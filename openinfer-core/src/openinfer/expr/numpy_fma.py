"""The fused multiply-add on arrays, which NumPy does not have: ``a * b + c``, rounded once.

A product of two f32 is exact in f64, so only the sum is rounded twice on its way to f32. That does no harm where the
first rounding is to odd: of the two f64 around an inexact sum, the one whose last bit is set (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums", 2008). f64 is computed in exact fractions, one element at a time.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


def fma_f32(
    out: npt.NDArray[Any],
    scratch: Sequence[npt.NDArray[np.float64]],
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    c: npt.NDArray[Any],
) -> None:
    """Write the fused multiply-add of f32 to ``out``, in four double arrays of its shape."""
    total, product, error, part = scratch
    np.multiply(a, b, out=product, dtype=np.float64)
    np.add(product, c, out=total)
    # Knuth's exact error of a sum: what of the product and of the addend the total does not hold.
    np.subtract(total, product, out=part)
    np.subtract(total, part, out=error)
    np.subtract(product, error, out=error)
    np.subtract(c, part, out=part)
    np.add(error, part, out=error)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0.0) & (bits & 1 == 0)
    away = (error > 0.0) == (total > 0.0)
    np.add(bits, np.where(away, 1, -1), out=bits, where=inexact)
    np.copyto(out, total, casting="same_kind")


def fma_f64(
    out: npt.NDArray[Any], scratch: Sequence[npt.NDArray[Any]], a: npt.NDArray[Any], b: npt.NDArray[Any], c: Any
) -> None:
    """Write the fused multiply-add of f64 to ``out``."""
    del scratch
    np.copyto(out, _ELEMENTWISE(a, b, c), casting="unsafe")


def _exact(a: float, b: float, c: float) -> float:
    """Return a multiply-add of Python floats, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # An infinite product is that of the signs, which is not the case where a finite one overflows.
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else 0.0
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        # IEEE: a sum of zeros has the sign of both, one that cancels is positive.
        return a * b + c if c == 0.0 and (a == 0.0 or b == 0.0) else 0.0
    try:
        # The quotient of Python's integers is correctly rounded, subnormal results included.
        return exact.numerator / exact.denominator
    except OverflowError:
        return -math.inf if exact < 0 else math.inf


_ELEMENTWISE = np.frompyfunc(_exact, 3, 1)
