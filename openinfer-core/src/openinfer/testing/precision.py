"""How precise a device has to be, as it follows from what is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.ops.precision import float_functions, ulps_of
from openinfer.ops.schema import Elementwise
from openinfer.testing.comparing import Tolerance
from openinfer.testing.sum_errors import sum_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema
    from openinfer.testing.oracle import Exact

ROUNDED_ULPS = 1.0
"""The same of a sum whose error is known: for what is done with it in the end, a division or a conversion."""

FLAT = 16.0
"""Argument beyond which functions of single elements cancel nothing any more: activations are flat or straight."""

_EXTREMA = frozenset({"max", "min", "maximum", "minimum"})


def tolerance_of(
    schema: OpSchema, call: OpCall, inputs: Sequence[Exact | None], expected: Sequence[Exact]
) -> Tolerance:
    """Return how far the results of a call may be off."""
    floats = [values for values in inputs if values is not None and values.dtype == float]
    if schema.tolerance is not None:
        return Tolerance(schema.tolerance, _reach(schema, floats, expected), zero_signs=not schema.tolerance)
    if not ulps_of(schema, call):
        return Tolerance(zero_signs=not _picks_zeros(schema, call))
    error = sum_error(call, inputs)
    if error is not None:
        return Tolerance(ROUNDED_ULPS, error=error)
    return Tolerance(ulps_of(schema, call), _reach(schema, floats, expected))


def _reach(schema: OpSchema, floats: Sequence[Exact], expected: Sequence[Exact]) -> Exact | float:
    """Return the magnitude in whose units cancellation is judged."""
    if isinstance(schema.definition, Elementwise):
        sizes = [np.minimum(np.abs(values), FLAT) for values in floats]
        return np.nan_to_num(np.max(np.broadcast_arrays(*sizes), axis=0)) if sizes else 0.0
    results = [values for values in expected if values.dtype == float]
    return max(map(_magnitude, (*floats, *results)), default=0.0)


def _picks_zeros(schema: OpSchema, call: OpCall) -> bool:
    """Whether the greater or lesser of zeros of both signs is requested, which may be either."""
    return call.settings.get("reduction") in _EXTREMA or bool(_EXTREMA & set(float_functions(schema, call)))


def _magnitude(values: Exact) -> float:
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0
