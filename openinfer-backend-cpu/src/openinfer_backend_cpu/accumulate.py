"""The setting ``acc``: in which type a contraction or sum accumulates (``dtypes.md``, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.dtypes import DType
from openinfer.model import storage_dtype
from openinfer_backend_cpu.staging import compute_dtype

if TYPE_CHECKING:
    import numpy as np

    from openinfer.ops.calls import OpCall


def accumulator_type(call: OpCall) -> DType | None:
    """Return the first type of the setting ``acc``, or None when it was not given."""
    acc = call.settings.get("acc")
    if isinstance(acc, tuple):
        acc = next(iter(acc), None)
    return acc if isinstance(acc, DType) else None


def accumulator_dtype(call: OpCall, otherwise: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type to accumulate in: that of ``acc``, else the compute type of ``otherwise``."""
    acc = accumulator_type(call)
    return compute_dtype(otherwise if acc is None else storage_dtype(acc))


def converts_once(call: OpCall) -> bool:
    """Return whether the conversion from accumulator to output is one that `Staging.store` does.

    That is float to float, or integer to integer; an integer accumulator with a float output is not.
    """
    acc, out = accumulator_type(call), call.outputs[0].dtype
    return acc is None or acc is out or (acc.is_float and out.is_float) or (acc.is_integer and out.is_integer)
