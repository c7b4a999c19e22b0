"""Products of small integers less their zero points, by way of products of 16-bit integers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.bound_calls import in_order
from openinfer.dtypes import I16, I32, DType
from openinfer.ir.types import TensorType
from openinfer.ops.calls import OpCall
from openinfer_backend_cpu.kernels.contraction import matmul
from openinfer_backend_cpu.kernels.convolution import conv2d
from openinfer_backend_cpu.registration import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("matmul_integer")
def matmul_integer(
    call: OpCall, inputs: Sequence[Array | None], outputs: Sequence[Array], workspace: Workspace
) -> BoundCall:
    """Product of a and b less their zero points, which go along rows and columns; sums wrap in i32."""
    del call
    a, b, a_zero, b_zero = (*inputs, None, None)[:4]
    if a is None or b is None:
        raise ValueError("matmul_integer needs a and b")
    return _product(a, b, a_zero, b_zero, outputs[0], workspace)


@kernel("conv_integer")
def conv_integer(
    call: OpCall, inputs: Sequence[Array | None], outputs: Sequence[Array], workspace: Workspace
) -> BoundCall:
    """Convolution of x with w, both less their zero points; sums wrap in i32."""
    x, w, x_zero, w_zero = (*inputs, None, None)[:4]
    if x is None or w is None:
        raise ValueError("conv_integer needs x and w")
    by_kernel = w_zero.reshape(-1, 1, 1, 1) if w_zero is not None and w_zero.ndim else w_zero
    image, centred = _less(x, x_zero, workspace)
    weights, others = _less(w, by_kernel, workspace)
    inner = replace(_wide(call, image, weights), settings={**call.settings, "acc": I32})
    return in_order([*centred, *others, conv2d(inner, (image, weights), outputs, workspace)])


@kernel("qlinear_matmul")
def qlinear_matmul(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """``clip(rne(f32(total) m) + y_zero)``, with ``m = f32(f32(a_scale b_scale) / y_scale)``."""
    del call
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    (y,), limits = outputs, np.iinfo(outputs[0].dtype)
    total = workspace.take(y.shape, np.dtype(np.int32))
    real = workspace.take(y.shape, np.dtype(np.float32))

    def quantise() -> None:
        rows = a_scale.astype(np.float32)
        factor = (rows[:, None] if rows.ndim else rows) * b_scale.astype(np.float32) / y_scale.astype(np.float32)
        np.multiply(total.astype(np.float32), factor, out=real)
        np.add(np.rint(real, out=real), y_zero.astype(np.float32), out=real)
        np.copyto(real, 0, where=np.isnan(real))
        np.copyto(y, np.clip(real, limits.min, limits.max), casting="unsafe")

    return in_order([_product(a, b, a_zero, b_zero, total, workspace), quantise])


def _product(
    a: Array, b: Array, a_zero: Array | None, b_zero: Array | None, target: Array, workspace: Workspace
) -> BoundCall:
    left, centred = _less(a, a_zero[:, None] if a_zero is not None and a_zero.ndim else a_zero, workspace)
    right, others = _less(b, b_zero, workspace)
    call = OpCall(
        op="matmul",
        inputs=(_type(left, I16), _type(right, I16)),
        outputs=(_type(target, I32),),
        settings={"acc": I32, "trans_a": False, "trans_b": False},
    )
    return in_order([*centred, *others, matmul(call, (left, right), (target,), workspace)])


def _wide(call: OpCall, first: Array, second: Array) -> OpCall:
    return replace(call, inputs=(_type(first, I16), _type(second, I16)))


def _less(array: Array, zero: Array | None, workspace: Workspace) -> tuple[Array, list[BoundCall]]:
    """Return where integers less their zero point are, and the calls that bring them there: i16 holds every one."""
    wide = workspace.take(array.shape, np.dtype(np.int16))
    if zero is None:
        return wide, [partial(np.copyto, wide, array)]
    return wide, [partial(np.subtract, array, zero, out=wide, dtype=np.int16)]


def _type(array: Array, dtype: DType) -> TensorType:
    return TensorType(dtype, array.shape)
