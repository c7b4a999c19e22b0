"""Matrix products: one thread for each output element, which walks the inner dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.buffers import WORDS, glsl_word
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, rendered
from openinfer_backend_vulkan.strides import broadcast_strides, merged

if TYPE_CHECKING:
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall

_DTYPES = frozenset({"f32", "i32", "u32"})


def _one_type(call: OpCall) -> bool:
    """Return whether operands and result have one element type, which the sum then has too."""
    return len({given.dtype.name for given in (*call.inputs, *call.outputs) if given is not None}) == 1


@kernel("matmul", dtypes=_DTYPES, supports=_one_type)
def matmul(call: OpCall) -> Shader:
    """a [..., M, K] and b [..., K, N], batch dimensions broadcast; operands of rank 1 are a row and a column."""
    a, b = _given(call, 0), _given(call, 1)
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    batch = call.outputs[0].shape[: max(len(left), len(right)) - 2]
    return _product(call, left, right, batch, transposed=False)


@kernel("linear", dtypes=_DTYPES, supports=_one_type)
def linear(call: OpCall) -> Shader:
    """x [..., K] times w [K, N], or [N, K] with ``trans_w``, plus bias [N] where it is given."""
    x, w = _given(call, 0), _given(call, 1)
    rows = 1
    for extent in x.shape[:-1]:
        rows *= extent
    return _product(call, (rows, x.shape[-1]), w.shape, (), transposed=bool(call.settings["trans_w"]))


def _product(
    call: OpCall, left: tuple[int, ...], right: tuple[int, ...], batch: tuple[int, ...], *, transposed: bool
) -> Shader:
    depth, columns = right[-2:][::-1] if transposed else right[-2:]
    output = call.outputs[0]
    walk = merged(batch, [_batch_strides(left, batch), _batch_strides(right, batch)])
    bias = len(call.inputs) > 2 and call.inputs[2] is not None
    source = rendered("matmul.comp.j2", word=glsl_word(output.dtype), bias=bias, rank=walk.rank)
    right_steps = (depth, 1) if transposed else (1, columns)
    parameters = (output.count, left[-2], columns, depth, depth, 1, *right_steps)
    strides = (step for operand in walk.strides for step in operand)
    return Shader(source, (*parameters, *walk.extents, *strides), output.count)


def _batch_strides(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far the batch dimensions of a matrix operand lead, in elements."""
    matrix = shape[-2] * shape[-1]
    return tuple(step * matrix for step in broadcast_strides(shape[:-2], batch))


def _given(call: OpCall, number: int) -> TensorType:
    given = call.inputs[number]
    if given is None or given.dtype.name not in WORDS:
        raise TypeError(f"{call.op} needs input {number}, found {given}")
    return given
