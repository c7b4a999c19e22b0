"""The opened device: kernels of the library where it has them, else core's evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.plugin import (
    DeviceError,
    bind_evaluator,
    bind_expression_computation,
    bind_fold_computation,
    filled,
    load_object,
)
from openinfer_example_library.kernels import kernel_of
from openinfer_example_library.memory import Memory, memory_of, to_host, to_library
from openinfer_example_library.programs import program_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.plugin import (
        Computation,
        ExecutionPlan,
        Expr,
        Fold,
        KernelSpec,
        OpCall,
        Scalar,
        TensorType,
        loops,
    )
    from openinfer_example_library.kernels import Kernel
    from openinfer_example_library.memory import HostArray

    BoundCall = Callable[[], object]


class LibraryBackend:
    """Runs each call at once."""

    def __init__(self, ordinal: int = 0) -> None:
        if ordinal:
            raise DeviceError(f"there is one device library, number 0; found number {ordinal}")

    @property
    def name(self) -> str:
        return "library"

    def allocate(self, type: TensorType) -> Memory:
        return memory_of(type, filled(type))

    def upload(self, type: TensorType, array: HostArray) -> Memory:
        return memory_of(type, array)

    def write(self, buffer: Memory, array: HostArray) -> None:
        buffer.array = to_library(buffer.type, array)

    def read(self, buffer: Memory) -> HostArray:
        return to_host(buffer)

    def bind_copy(self, source: Memory, target: Memory) -> BoundCall:
        return lambda: setattr(target, "array", source.array)

    def bind_fill(self, target: Memory, value: Scalar) -> BoundCall:
        array = to_library(target.type, filled(target.type, value))
        return lambda: setattr(target, "array", array)

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Memory | None], outputs: Sequence[Memory]
    ) -> BoundCall:
        make: Callable[[OpCall], Kernel] = load_object(kernel.kernel)
        return _bound(make(call), [memory for memory in inputs if memory is not None], outputs)

    def bind_expression(self, expr: Expr, inputs: Sequence[Memory | None], output: Memory) -> BoundCall:
        return bind_expression_computation(self, expr, inputs, output)

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Memory, output: Memory) -> BoundCall:
        return bind_fold_computation(self, axes, fold, source, output)

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Memory], outputs: Sequence[Memory]
    ) -> BoundCall:
        kernel = kernel_of(computation)
        if kernel is None:
            return bind_evaluator(self, computation, inputs, outputs)
        return _bound(kernel, inputs, outputs)

    def bind_loops(self, kernel: loops.Kernel, inputs: Sequence[Memory], outputs: Sequence[Memory]) -> BoundCall:
        return bind_evaluator(self, kernel, inputs, outputs)

    def bind_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Memory], outputs: Mapping[str, Memory]
    ) -> Callable[[], bool]:
        return program_of(self, plan, inputs, outputs)

    def synchronize(self) -> None:
        """Nothing is queued."""

    def concurrent_backend(self) -> None:
        """Return None: one thread at a time."""

    def close(self) -> None:
        """Memory goes with its last user."""


def _bound(kernel: Kernel, inputs: Sequence[Memory], outputs: Sequence[Memory]) -> BoundCall:
    (output,) = outputs

    def run() -> None:
        # This library computes with NumPy, which warns of what the language defines, such as a division by zero.
        with np.errstate(all="ignore"):
            output.array = kernel(*(memory.array for memory in inputs))

    return run
