"""Conversion between element types where the other type may have no value for an element."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.expr.linear import linearise
from openinfer.ops.applying import refused_expression, scalar_expression
from openinfer.ops.catalog.mutation import CAST, WITHOUT_SIGN
from openinfer_backend_cpu.elementwise import bind_program
from openinfer_backend_cpu.indices import OutOfRangeError
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


def _may_refuse(call: OpCall) -> bool:
    return refused_expression(CAST, call) is not None


@kernel("cast", supports=_may_refuse)
def cast(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """x as the sign that t1 holds; an element without one is an error."""
    refused = workspace.take(inputs[0].shape, np.dtype(np.bool_))
    test = refused_expression(CAST, call)
    if test is None:
        raise ValueError(f"this {call.op} refuses no element: it is an expression")
    return in_order(
        [
            bind_program(linearise(test), inputs, refused, workspace),
            partial(_check, call, inputs[0], refused),
            bind_program(linearise(scalar_expression(CAST, call)), inputs, outputs[0], workspace),
        ]
    )


def _check(call: OpCall, x: Array, refused: Array) -> None:
    """Check that no element is refused.

    Raises:
        OutOfRangeError: one is.
    """
    if not refused.any():
        return
    where = [int(place) for place in np.argwhere(refused)[0]]
    at = f" at {where}" if where else ""
    message = f"cast of {call.inputs[0]} to {call.outputs[0].dtype}: {x[tuple(where)]}{at} has no sign: {WITHOUT_SIGN}"
    raise OutOfRangeError(message)
