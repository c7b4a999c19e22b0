"""Powers of integers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.dtypes import SINT, UINT
from openinfer_backend_cpu.indices import OutOfRangeError
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_INTEGER = frozenset(dtype.name for dtype in (*SINT, *UINT))


@kernel("pow", dtypes=_INTEGER)
def power(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """a to the power b, wrapping."""
    del call, workspace
    a, b = inputs
    work = partial(np.power, a, b, out=outputs[0])
    return work if b.dtype.kind == "u" else in_order([partial(_check, b), work])


def _check(exponents: Array) -> None:
    """Check that no exponent is negative.

    Raises:
        OutOfRangeError: one is.
    """
    if exponents.size and exponents.min() < 0:
        where = [int(place) for place in np.argwhere(exponents < 0)[0]]
        message = f"pow: exponent {exponents[tuple(where)]} at {where} is negative: integers take exponents from 0 on"
        raise OutOfRangeError(message)
