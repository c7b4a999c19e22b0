"""The error function on arrays, which NumPy does not have.

``erf(x) = x g(x^2)`` where ``g`` is smooth, so a Chebyshev series of ``g`` over the squares up to 36 (where erf is 1 in
double precision) keeps the relative error small down to zero. Measured against the C library's ``erf``: at most 3 units
in the last place up to 3, and 7 beyond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_LIMIT = 6.0

# The series that interpolates g at the 40 Chebyshev points of the first kind, the first coefficient halved.
_COEFFICIENTS = (
    0.367449818042992,
    -0.31346560667104406,
    0.18068036754729297,
    -0.10948259780540116,
    0.06650028321506818,
    -0.0397628416152263,
    0.023194768790993588,
    -0.013132045071459708,
    0.007193664033012412,
    -0.003805440047020257,
    0.0019417349790361435,
    -0.0009550486382425634,
    0.00045268145600345204,
    -0.00020677121401621907,
    9.103378630424625e-05,
    -3.864376344861996e-05,
    1.5824027438876403e-05,
    -6.253838171562172e-06,
    2.386845548862012e-06,
    -8.802851959574693e-07,
    3.1392692693417673e-07,
    -1.0832563596400346e-07,
    3.619311734690902e-08,
    -1.1716764549277863e-08,
    3.6776422490784716e-09,
    -1.119956011908256e-09,
    3.3112128776045585e-10,
    -9.510584528579965e-11,
    2.655426660738333e-11,
    -7.211650421032759e-12,
    1.9061956015533818e-12,
    -4.906644970423675e-13,
    1.230639298352856e-13,
    -3.00914526119042e-14,
    7.177145072292645e-15,
    -1.6706259787561967e-15,
    3.7969965017602923e-16,
    -8.429752236020601e-17,
    1.8261058083531006e-17,
    -3.717806345656456e-18,
)


def erf(out: npt.NDArray[Any], scratch: Sequence[npt.NDArray[np.float64]], x: npt.NDArray[Any]) -> None:
    """Write the error function of ``x`` to ``out``, in five double arrays of its shape.

    Clenshaw's recurrence in Reinsch's form, which loses nothing where squares are small: with ``t`` the argument of the
    series and b its sums, ``raised`` is ``2 t + 2``, and ``pairs`` are sums of one b and the next.
    """
    clipped, raised, current, pairs, product = scratch
    np.clip(x, -_LIMIT, _LIMIT, out=clipped, casting="unsafe")
    np.multiply(clipped, clipped, out=raised)
    np.multiply(raised, 4.0 / (_LIMIT * _LIMIT), out=raised)
    first, *rest = _COEFFICIENTS
    current.fill(0.0)
    pairs.fill(0.0)
    for coefficient in reversed(rest):
        np.multiply(raised, current, out=product)
        np.subtract(product, pairs, out=pairs)
        np.add(pairs, coefficient, out=pairs)
        np.subtract(pairs, current, out=current)
    np.multiply(raised, 0.5, out=raised)
    np.multiply(raised, current, out=raised)
    np.subtract(raised, pairs, out=raised)
    np.add(raised, first, out=raised)
    np.multiply(raised, clipped, out=raised)
    np.clip(raised, -1.0, 1.0, out=raised)
    np.copyto(out, raised, casting="same_kind")
