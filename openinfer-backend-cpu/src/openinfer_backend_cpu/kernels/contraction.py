"""Matrix products."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer_backend_cpu.accumulate import accumulator_type, first_element
from openinfer_backend_cpu.products import factor_dtype, product_target
from openinfer_backend_cpu.registration import direct, kernel
from openinfer_backend_cpu.staging import Staging, computed_as_stored, widest_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    BoundCall: TypeAlias = Callable[[], object]
    DirectWork: TypeAlias = Callable[[Sequence[Any], Sequence[Array]], object]


def _direct_matmul(call: OpCall, workspace: Workspace) -> DirectWork | None:
    del workspace
    if not computed_as_stored(call):
        return None
    first, second = bool(call.settings.get("trans_a")), bool(call.settings.get("trans_b"))
    if first or second:
        return lambda inputs, outputs: np.matmul(
            _swapped(inputs[0], first), _swapped(inputs[1], second), out=outputs[0]
        )
    return lambda inputs, outputs: np.matmul(inputs[0], inputs[1], out=outputs[0])


@direct(_direct_matmul)
@kernel("matmul")
def matmul(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Matrix product with NumPy's rules for ranks; low floats accumulate in f32 and round once, integers wrap.

    On bool it is OR over k of AND.
    """
    accumulator = accumulator_type(call)
    factors = factor_dtype(first_element(call), max(inputs[0].shape, default=1), storage_dtype(accumulator))
    staging = Staging(workspace)
    left = _swapped(staging.load(inputs[0], factors), call.settings.get("trans_a"))
    right = _swapped(staging.load(inputs[1], factors), call.settings.get("trans_b"))
    result = staging.deliver(outputs[0], accumulator, call.outputs[0].dtype)
    target, wrap = product_target(result, factors, workspace)
    return staging.around(partial(np.matmul, left, right, out=target), *wrap)


def _swapped(array: Array, transposed: object) -> Array:
    return array.swapaxes(-1, -2) if transposed and array.ndim > 1 else array


@kernel("linear")
def linear(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """x [..., K] times w [K, N] ([N, K] with ``trans_w``) plus bias [N], computed in the widest float type given."""
    bias = inputs[2] if len(inputs) > 2 else None
    dtype = widest_float([*inputs])
    staging = Staging(workspace)
    rows = staging.load(inputs[0], dtype)
    weights = _swapped(staging.load(inputs[1], dtype), call.settings.get("trans_w"))
    target = staging.store(outputs[0], dtype)
    count = math.prod(rows.shape[:-1])
    flat_rows, flat_target = rows.reshape(count, rows.shape[-1]), target.reshape(count, target.shape[-1])
    product = partial(np.matmul, flat_rows, weights, out=flat_target)
    if bias is None:
        return staging.around(product)
    offset = staging.load(bias, dtype)
    return staging.around(product, partial(np.add, flat_target, offset, out=flat_target))
