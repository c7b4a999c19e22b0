"""Products of matrices, and of anything that an equation of sums names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ops.catalog.einsum import equation_for
from openinfer.ops.shapes import needed
from openinfer.ops.strides import broadcast_strides, contiguous
from openinfer_backend_vulkan.contraction import Factor, contraction
from openinfer_backend_vulkan.registration import COMPUTED, kernel
from openinfer_backend_vulkan.sums import sums_in_32_bits

if TYPE_CHECKING:
    from openinfer.ops.calls import OpCall
    from openinfer_backend_vulkan.shaders import Shader

    Shape = tuple[int, ...]


@kernel("matmul", dtypes=COMPUTED, supports=sums_in_32_bits)
def matmul(call: OpCall) -> Shader:
    """a [..., M, K] and b [..., K, N], batch dimensions broadcast; operands of rank 1 are a row and a column."""
    a, b = needed(call.inputs).shape, needed(call.inputs, 1).shape
    left = _matrix(a, swapped=bool(call.settings.get("trans_a")), row=True)
    right = _matrix(b, swapped=bool(call.settings.get("trans_b")), row=False)
    return _product(call, left, right, call.outputs[0].shape[: max(len(a), len(b), 2) - 2])


@kernel("linear", dtypes=COMPUTED, supports=sums_in_32_bits)
def linear(call: OpCall) -> Shader:
    """x [..., K] times w [K, N], or [N, K] with ``trans_w``, plus bias [N] where it is given."""
    x, w = needed(call.inputs).shape, needed(call.inputs, 1).shape
    right = _matrix(w, swapped=bool(call.settings.get("trans_w")), row=False)
    left = _matrix((1, *x) if len(x) == 1 else x, swapped=False, row=True)
    return _product(call, left, right, x[:-2])


class _Matrix:
    """An operand as a stack of matrices: the shape of the stack with its strides, and sizes and steps of a matrix."""

    def __init__(self, shape: Shape, steps: Shape) -> None:
        self.stack, (self.rows, self.columns) = shape[:-2], shape[-2:]
        self.down, self.across = steps

    def factor(self, batch: Shape, *, row: bool) -> Factor:
        """Return the factor of a product over the columns of a ``row`` operand or the rows of the other."""
        size = self.rows * self.columns
        stack = tuple(step * size for step in broadcast_strides(self.stack, batch))
        return Factor((*stack, self.down, 0), (self.across,)) if row else Factor((*stack, 0, self.across), (self.down,))


def _matrix(shape: Shape, *, swapped: bool, row: bool) -> _Matrix:
    """Return an operand as it is multiplied; one of rank 1 is a row or a column."""
    if len(shape) == 1:
        return _Matrix((1, *shape) if row else (*shape, 1), (0, 1) if row else (1, 0))
    rows, columns = shape[-2:]
    if swapped:
        return _Matrix((*shape[:-2], columns, rows), (1, columns))
    return _Matrix(shape, (columns, 1))


def _product(call: OpCall, left: _Matrix, right: _Matrix, batch: Shape) -> Shader:
    bias = len(call.inputs) > 2 and call.inputs[2] is not None
    return contraction(
        call,
        (*batch, left.rows, right.columns),
        (left.columns,),
        (left.factor(batch, row=True), right.factor(batch, row=False)),
        (*(0 for _ in batch), 0, 1) if bias else None,
    )


@kernel("einsum", dtypes=COMPUTED, supports=sums_in_32_bits)
def einsum(call: OpCall) -> Shader:
    """The sum of the equation; a dim of 1 that is broadcast is read at its one place, a label may stand for several."""
    equation = equation_for(call.inputs, call.settings)
    factors: list[Factor] = []
    for number, labels in enumerate(equation.inputs):
        shape = needed(call.inputs, number).shape
        steps = dict.fromkeys(range(len(equation.extents)), 0)
        for label, extent, step in zip(labels, shape, contiguous(shape), strict=True):
            steps[label] += step if extent == equation.extents[label] else 0
        outer, inner = (tuple(steps[label] for label in side) for side in (equation.output, equation.summed))
        factors.append(Factor(outer, inner))
    return contraction(call, equation.shape, [equation.extents[label] for label in equation.summed], factors)
