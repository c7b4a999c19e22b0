"""The opened device: an `openinfer.plugin.DeviceBackend` on NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.plugin import DeviceError, compile_program, linearise, load_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.plugin import Expr, Fold, KernelSpec, OpCall, Scalar, TensorType

    Array = npt.NDArray[Any]
    Bind = Callable[[OpCall, Sequence[Array | None], Sequence[Array | None]], Callable[[], None]]


@dataclass(frozen=True, eq=False)
class Beads:
    """Memory of the device: one array."""

    type: TensorType
    array: Array


class AbacusBackend:
    """Runs each call at once."""

    def __init__(self, ordinal: int = 0) -> None:
        if ordinal:
            raise DeviceError(f"there is one abacus, number 0; found number {ordinal}")

    @property
    def name(self) -> str:
        return "abacus"

    def allocate(self, type: TensorType) -> Beads:
        return Beads(type, np.zeros(type.shape, type.dtype.storage))

    def upload(self, type: TensorType, array: Array) -> Beads:
        return Beads(type, array)

    def write(self, buffer: Beads, array: Array) -> None:
        np.copyto(buffer.array, array)

    def read(self, buffer: Beads) -> Array:
        return buffer.array.copy()

    def bind_copy(self, source: Beads, target: Beads) -> Callable[[], None]:
        return lambda: np.copyto(target.array, source.array)

    def bind_fill(self, target: Beads, value: Scalar) -> Callable[[], None]:
        return lambda: target.array.fill(value)

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Beads | None], outputs: Sequence[Beads]
    ) -> Callable[[], None]:
        bind: Bind = load_object(kernel.kernel)
        return bind(call, _arrays(inputs), _arrays(outputs))

    def bind_expression(self, expr: Expr, inputs: Sequence[Beads | None], output: Beads) -> Callable[[], None]:
        evaluate = compile_program(linearise(expr))
        arrays = _arrays(inputs)
        return lambda: evaluate(arrays, output.array)

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Beads, output: Beads) -> Callable[[], None]:
        kept = [axis for axis in range(source.array.ndim) if axis not in axes]
        rows = source.array.transpose((*axes, *kept))
        positions = list(np.ndindex(rows.shape[: len(axes)]))
        element, combine, finish = (_function(e) for e in (fold.element, fold.combine, fold.finish))
        start = None if fold.start is None else _function(fold.start)
        result = output.array.reshape(rows.shape[len(axes) :])

        def run() -> None:
            if not result.size:
                return
            mapped = [element([rows[position]], result.shape) for position in positions]
            total = start([], result.shape) if start is not None else mapped.pop(0)
            for row in mapped:
                total = combine([total, row], result.shape)
            np.copyto(result, finish([total, np.array(len(positions))], result.shape))

        return run

    def synchronize(self) -> None:
        """Nothing is queued."""

    def concurrent_backend(self) -> None:
        """Return None: one thread at a time."""

    def close(self) -> None:
        """Memory goes with its last user."""


def _arrays(buffers: Sequence[Beads | None]) -> list[Array | None]:
    return [None if beads is None else beads.array for beads in buffers]


def _function(expr: Expr) -> Callable[[list[Array], tuple[int, ...]], Array]:
    evaluate = compile_program(linearise(expr))

    def call(inputs: list[Array], shape: tuple[int, ...]) -> Array:
        out = np.empty(shape, expr.dtype.storage)
        evaluate(inputs, out)
        return out

    return call
