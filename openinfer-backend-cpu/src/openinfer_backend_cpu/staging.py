"""Conversions around a kernel: operands into the type that it computes in, results back into their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    BoundCall: TypeAlias = Callable[[], object]


def sequence(calls: Sequence[BoundCall]) -> BoundCall:
    """Return one call that makes several, in order."""
    if len(calls) == 1:
        return calls[0]
    fixed = tuple(calls)

    def run() -> None:
        for call in fixed:
            call()

    return run


def copy_into(target: Array, source: Array) -> BoundCall:
    """Return a call that copies with conversion: rounding for floats, wrapping for integers."""
    return partial(np.copyto, target, source, casting="unsafe")


class Staging:
    """Collects what has to be done before and after the work of a kernel."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._before: list[BoundCall] = []
        self._after: list[BoundCall] = []

    def load(self, array: Array, dtype: np.dtype[Any]) -> Array:
        """Return an operand in the type ``dtype``: the array itself where it has it."""
        if array.dtype == dtype:
            return array
        scratch = self._workspace.take(array.shape, dtype)
        self._before.append(copy_into(scratch, array))
        return scratch

    def store(self, array: Array, dtype: np.dtype[Any]) -> Array:
        """Return where a result of type ``dtype`` is written to; it is converted once into ``array``.

        Integers that do not fit a narrower integer type are clipped, as ``cast`` does.
        """
        if array.dtype == dtype:
            return array
        scratch = self._workspace.take(array.shape, dtype)
        if dtype.kind in "iu" and array.dtype.kind in "iu" and not np.can_cast(dtype, array.dtype):
            limits = np.iinfo(array.dtype)
            own = np.iinfo(dtype)
            low, high = max(limits.min, own.min), min(limits.max, own.max)
            self._after.append(partial(np.clip, scratch, dtype.type(low), dtype.type(high), out=scratch))
        self._after.append(copy_into(array, scratch))
        return scratch

    def around(self, *work: BoundCall) -> BoundCall:
        """Return the whole call."""
        return sequence([*self._before, *work, *self._after])


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type that elements are computed in: float32 for the low floats, else their own."""
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16", "float8_e5m2") else dtype


def widest_float(arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """Return float64 if an operand has it, else float32."""
    wide = any(array is not None and array.dtype == np.float64 for array in arrays)
    return np.dtype(np.float64 if wide else np.float32)
