"""How far sums of floats may be off whose order is free: ``|error| <= 2 k u`` times the sum of ``|terms|``.

k is the number of terms and u the unit roundoff of the type that they are added up in: a product and k - 1 additions
round at most k times, in whatever order, and twice that leaves room for a library with blocks of its own (N. J. Higham,
Accuracy and Stability of Numerical Algorithms, section 3.1). The operators in question are linear in each input, so
that the sum of magnitudes is what their oracle says of absolute values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.dtypes import FLOAT, DType
from openinfer.float_formats import FORMATS
from openinfer.ops.accumulate import accumulator
from openinfer.ops.calls import compute_type
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known, known_oracles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact

    Terms: TypeAlias = Callable[[OpCall], int]
    """Returns the number of terms of each sum of a call."""


def counted_sums() -> Mapping[str, Terms]:
    """Return the numbers of terms of the built-in operators that add up in any order, by operator name."""
    return known("SUMS")


def sum_error(call: OpCall, inputs: Sequence[Exact | None]) -> Callable[[], Exact] | None:
    """Return what computes how far each element of a call may be off; None where no sum of floats has a free order."""
    terms, dtype = counted_sums().get(call.op), _added_in(call)
    if terms is None or dtype is None:
        return None

    def error() -> Exact:
        sizes = [None if values is None else np.abs(values) for values in inputs]
        with np.errstate(all="ignore"):
            (magnitude,) = expected_of(known_oracles()[call.op], sizes, call)
            bound = terms(call) * FORMATS[dtype.name].epsilon * magnitude.values.astype(np.float64)
        return np.where(np.isfinite(bound), bound, 0.0)

    return error


def _added_in(call: OpCall) -> DType | None:
    """Return the type in which a call adds up; None for integers."""
    given = [type_.dtype for type_ in call.inputs if type_ is not None and type_.dtype.is_float]
    if not given:
        return None
    if call.settings.get("acc") is not None:
        return compute_type(accumulator(given[0], call.settings))
    return max(map(compute_type, given), key=FLOAT.index)
