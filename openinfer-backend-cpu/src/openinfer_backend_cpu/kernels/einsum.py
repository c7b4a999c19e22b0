"""Sums of products, by pairs in an order that NumPy finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ops.catalog.einsum import equation_for
from openinfer_backend_cpu.matrix_products import alone
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer.ops.equations import Equation
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@kernel("einsum")
def einsum(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """The sum, in f32 for low floats; integers wrap."""
    equation = equation_for(call.inputs, call.settings)
    dtype = compute_dtype(outputs[0].dtype)
    staging = Staging(workspace)
    target = staging.store(outputs[0], dtype)
    operands: list[Any] = []
    for x, labels in zip(inputs, equation.inputs, strict=True):
        operands += _varying(staging.load(x, dtype), labels, equation)
    output = list(equation.output)
    present = {label for labels in operands[1::2] for label in labels}
    repeated = [label for label in output if label not in present]
    for label in repeated:
        operands += [np.ones(equation.extents[label], dtype), [label]]
    path: Any = np.einsum_path(*operands, output, optimize="greedy")[0]

    def run() -> None:
        np.einsum(*operands, output, out=target, optimize=path)

    return staging.around(alone(run))


def _varying(x: Array, labels: tuple[int, ...], equation: Equation) -> tuple[Array, list[int]]:
    """Return an operand without the dims of 1 that are broadcast: it is the same there everywhere."""
    kept = [n for n, label in enumerate(labels) if x.shape[n] == equation.extents[label]]
    chosen = tuple(slice(None) if n in kept else 0 for n in range(x.ndim))
    return x[(*chosen, ...)], [labels[n] for n in kept]
