"""Conversions around a kernel: operands into the type that it computes in, results back into their own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import element_type, storage_dtype
from openinfer.bound_calls import in_order
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ops.calls import compute_type
from openinfer.ops.conversion import converted
from openinfer_backend_cpu.elementwise import bind_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


def copy_into(target: Array, source: Array) -> BoundCall:
    """Return a call that copies with conversion: rounding for floats, wrapping for integers."""
    return partial(np.copyto, target, source, casting="unsafe")


def quieted(array: Array, workspace: Workspace, *, in_place: bool) -> tuple[Array, BoundCall]:
    """Return an array of floats in which all NaNs are quiet, and the call that fills it.

    NumPy's fmax and fmin skip a quiet NaN, but make one of a signalling NaN in some of their loops.
    """
    target = array if in_place else workspace.take(array.shape, array.dtype)
    return target, partial(np.multiply, array, array.dtype.type(1), out=target)


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
        """Return the destination for floats of type ``dtype``, which are rounded once into the float ``array``."""
        if array.dtype == dtype:
            return array
        scratch = self._workspace.take(array.shape, dtype)
        self._after.append(copy_into(array, scratch))
        return scratch

    def deliver(self, array: Array, computed: DType, wanted: DType) -> Array:
        """Return where a result of type ``computed`` is written to.

        It is converted once into ``array``, of element type ``wanted``, by the rules of ``cast``.
        """
        if computed is wanted:
            return array
        scratch = self._workspace.take(array.shape, storage_dtype(computed))
        program = linearise(converted(tree.Input(0, computed), wanted))
        self._after.append(bind_program(program, [scratch], array, self._workspace))
        return scratch

    def around(self, *work: BoundCall) -> BoundCall:
        """Return the whole call."""
        return in_order([*self._before, *work, *self._after])


def compute_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type in which elements stored as ``dtype`` are computed."""
    element = element_type(dtype)
    return dtype if element is None else storage_dtype(compute_type(element))


def widest_float(arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """Return float64 if an operand has it, else float32."""
    wide = any(array is not None and array.dtype == np.float64 for array in arrays)
    return np.dtype(np.float64 if wide else np.float32)


def computed_as_stored(call: OpCall) -> bool:
    """Whether operands and results are all f32, or all f64: nothing is converted."""
    kinds = {kind.dtype.name for kind in (*call.inputs, *call.outputs) if kind is not None}
    return kinds in ({"f32"}, {"f64"})
