"""In which type a contraction or sum accumulates (``specification: dtypes.accumulators``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.accumulate import accumulator
from openinfer.ops.calls import compute_type

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall


def first_element(call: OpCall) -> DType:
    """Return the element type of the first input."""
    return next(given.dtype for given in call.inputs if given is not None)


def accumulator_type(call: OpCall) -> DType:
    """Return the type to accumulate in: the first of the setting ``acc``, else that of the first input; for low floats
    f32."""
    return compute_type(accumulator(first_element(call), call.settings))
