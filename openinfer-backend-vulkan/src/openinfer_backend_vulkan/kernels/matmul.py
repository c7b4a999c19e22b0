"""Matrix products: one thread for each output element, which walks the inner dimension."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ops.accumulate import accumulator
from openinfer.ops.shapes import needed
from openinfer.ops.strides import broadcast_strides, merged
from openinfer_backend_vulkan.buffers import glsl_word
from openinfer_backend_vulkan.registration import kernel
from openinfer_backend_vulkan.shaders import Shader, Turns, rendered

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall

    Matrix = tuple[tuple[int, ...], bool]
    """Shape of an operand of rank 2 or more, and whether its last two dimensions are swapped."""

_DTYPES = frozenset({"f32", "i32", "u32"})


def _one_type(call: OpCall) -> bool:
    """Return whether operands, sums and result have one element type."""
    types = {given.dtype.name for given in (*call.inputs, *call.outputs) if given is not None}
    types.add(accumulator(call.outputs[0].dtype, call.settings).name)
    return len(types) == 1


@kernel("matmul", dtypes=_DTYPES, supports=_one_type)
def matmul(call: OpCall) -> Shader:
    """a [..., M, K] and b [..., K, N], batch dimensions broadcast; operands of rank 1 are a row and a column."""
    a, b = needed(call.inputs).shape, needed(call.inputs, 1).shape
    left = (a, bool(call.settings.get("trans_a"))) if len(a) > 1 else ((1, *a), False)
    right = (b, bool(call.settings.get("trans_b"))) if len(b) > 1 else ((*b, 1), False)
    return _product(call, left, right, call.outputs[0].shape[: max(len(left[0]), len(right[0])) - 2])


@kernel("linear", dtypes=_DTYPES, supports=_one_type)
def linear(call: OpCall) -> Shader:
    """x [..., K] times w [K, N], or [N, K] with ``trans_w``, plus bias [N] where it is given."""
    x, w = needed(call.inputs).shape, needed(call.inputs, 1).shape
    return _product(call, ((math.prod(x[:-1]), x[-1]), False), (w, bool(call.settings.get("trans_w"))), ())


def _product(call: OpCall, left: Matrix, right: Matrix, batch: tuple[int, ...]) -> Shader:
    output = call.outputs[0]
    rows, depth, left_steps = _matrix(left)
    _, columns, right_steps = _matrix(right)
    walk = merged(batch, [_batch_strides(left[0], batch), _batch_strides(right[0], batch)])
    bias = len(call.inputs) > 2 and call.inputs[2] is not None
    source = rendered("matmul.comp.j2", word=glsl_word(output.dtype), bias=bias, rank=walk.rank)
    fixed = (output.count, rows, columns, depth, *left_steps, *reversed(right_steps), 0, depth)
    strides = (step for operand in walk.strides for step in operand)
    return Shader(source, (*fixed, *walk.extents, *strides), output.count, turns=Turns(depth, at=8))


def _matrix(operand: Matrix) -> tuple[int, int, tuple[int, int]]:
    """Return rows and columns of an operand as it is multiplied, and the steps between them."""
    shape, swapped = operand
    rows, columns = shape[-2:]
    return (columns, rows, (1, columns)) if swapped else (rows, columns, (columns, 1))


def _batch_strides(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return how far the batch dimensions of a matrix operand lead, in elements."""
    matrix = shape[-2] * shape[-1]
    return tuple(step * matrix for step in broadcast_strides(shape[:-2], batch))
