"""In which type a contraction or sum accumulates (``dtypes.md``, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.model import storage_dtype
from openinfer.ops.accumulate import accumulator
from openinfer_backend_cpu.staging import compute_dtype

if TYPE_CHECKING:
    import numpy as np

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall


def first_element(call: OpCall) -> DType:
    """Return the element type of the first input."""
    return next(given.dtype for given in call.inputs if given is not None)


def accumulator_type(call: OpCall) -> DType:
    """Return the first type of the setting ``acc``, else that of the first input."""
    return accumulator(first_element(call), call.settings)


def accumulator_dtype(call: OpCall) -> np.dtype[Any]:
    """Return the NumPy type to accumulate in: low floats in float32."""
    return compute_dtype(storage_dtype(accumulator_type(call)))


def converts_once(call: OpCall) -> bool:
    """Return whether the conversion from accumulator to output is one that `Staging.store` does.

    That is float to float, or integer to integer; an integer accumulator with a float output is not.
    """
    acc, out = accumulator_type(call), call.outputs[0].dtype
    return acc is out or (acc.is_float and out.is_float) or (acc.is_integer and out.is_integer)
