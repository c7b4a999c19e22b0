"""Matrix products."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer_backend_cpu.accumulate import accumulator_type, first_element
from openinfer_backend_cpu.integer_products import factor_dtype, product_target
from openinfer_backend_cpu.matrix_products import bind_product, product_of
from openinfer_backend_cpu.registration import direct, kernel
from openinfer_backend_cpu.staging import Staging, computed_as_stored, widest_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.matrix_products import Product
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    DirectWork: TypeAlias = Callable[[Sequence[Any], Sequence[Array]], object]


def _direct_matmul(call: OpCall, workspace: Workspace) -> DirectWork | None:
    del workspace
    if not computed_as_stored(call):
        return None
    a, b = (kind.shape for kind in call.inputs[:2] if kind is not None)
    first, second = bool(call.settings.get("trans_a")), bool(call.settings.get("trans_b"))
    product = product_of(_turned(a, first), _turned(b, second), storage_dtype(call.outputs[0].dtype))
    return _directly(product, first, second)


@cache
def _directly(product: Product, first: bool, second: bool) -> DirectWork:
    """Return the call for any arrays: one for all shapes that a growing operand comes to have."""
    if first or second:
        return lambda inputs, outputs: product(_swapped(inputs[0], first), _swapped(inputs[1], second), outputs[0])
    return lambda inputs, outputs: product(inputs[0], inputs[1], outputs[0])


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
    return staging.around(bind_product(left, right, target), *wrap)


def _swapped(array: Array, transposed: object) -> Array:
    return array.swapaxes(-1, -2) if transposed and array.ndim > 1 else array


def _turned(shape: tuple[int, ...], transposed: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transposed and len(shape) > 1 else shape


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
    product = bind_product(flat_rows, weights, flat_target)
    if bias is None:
        return staging.around(product)
    offset = staging.load(bias, dtype)
    return staging.around(product, partial(np.add, flat_target, offset, out=flat_target))
