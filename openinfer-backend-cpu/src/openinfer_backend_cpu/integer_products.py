"""Matrix products of narrow integers through the floating-point library, exact.

NumPy multiplies integer matrices with plain loops. Sums of products of 8- and 16-bit integers stay below 2^53 for any
sensible number of terms, so that doubles hold them exactly and the library can be used.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.dtypes import Kind

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.dtypes import DType
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_EXACT = 1 << 53
"""Integers up to this one are doubles."""


def factor_dtype(element: DType, terms: int, accumulator: np.dtype[Any]) -> np.dtype[Any]:
    """Return the NumPy type to multiply in: float64 where it is exact for ``terms`` products of integers, else
    ``accumulator``."""
    narrow = (element.is_integer or element.kind is Kind.TERNARY) and element.bits <= 16
    return np.dtype(np.float64) if narrow and terms << (2 * element.bits) <= _EXACT else accumulator


def product_target(target: Array, factors: np.dtype[Any], workspace: Workspace) -> tuple[Array, list[BoundCall]]:
    """Return where products of ``factors`` are written, and the calls that bring them, wrapped, to ``target``."""
    if target.dtype == factors:
        return target, []
    exact = workspace.take(target.shape, factors)
    whole = workspace.take(target.shape, np.dtype(np.int64))
    return exact, [
        partial(np.copyto, whole, exact, casting="unsafe"),
        partial(np.copyto, target, whole, casting="unsafe"),
    ]
