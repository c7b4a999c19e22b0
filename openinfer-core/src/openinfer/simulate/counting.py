"""``cache.increment`` and ``cache.decrement``: a plain persistent scalar plus an amount."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, DType
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.simulate.backend import BoundCall, Buffer, DeviceBackend


def bind_count(backend: DeviceBackend, target: Buffer, amount: int) -> BoundCall:
    """Return a call that adds ``amount``: integers wrap at their width, floats add."""
    dtype = target.type.dtype
    compute = F32 if dtype.is_low_float else dtype
    element = tree.cast(tree.Input(0, dtype), compute)
    total = tree.add(element, tree.literal(_in_range(amount, dtype), compute))
    return backend.bind_expression(tree.cast(total, dtype), [target], target)


def _in_range(amount: int, dtype: DType) -> int | float:
    """Return the amount modulo the width of an integer type, inside its range."""
    if dtype.is_float:
        return float(amount)
    low = dtype.minimum or 0
    return (amount - low) % (1 << dtype.bits) + low
