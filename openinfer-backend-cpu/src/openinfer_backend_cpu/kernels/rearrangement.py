"""Operators that a view describes: one strided copy per output."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from openinfer.bound_calls import in_order
from openinfer.ops.catalog.rearrangement import RULES, moved_by
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer.ops.views import View
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


def rearrange(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Copy the view of x that belongs to each output."""
    del workspace
    # NumPy makes strided views of its own types only, and codes are all that moves.
    codes = np.dtype(f"u{inputs[0].dtype.itemsize}")
    copies: list[BoundCall] = []
    for moved, out in zip(moved_by(call), outputs, strict=True):
        target = out.view(codes).reshape(moved.view.extents)
        copies.append(partial(np.copyto, target, viewed(inputs[0].view(codes), moved.view)))
    return in_order(copies)


for _name in RULES:
    kernel(_name)(rearrange)


def viewed(x: Array, view: View) -> Array:
    """Return the elements of a view; it holds at most what x does."""
    if not view.count:
        return np.empty(view.extents, x.dtype)
    first = x[(*(slice(place, None) for place in view.start), ...)]
    return as_strided(first, view.extents, view.strides(x.strides), writeable=False)
