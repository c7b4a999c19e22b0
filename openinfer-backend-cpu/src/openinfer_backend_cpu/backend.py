"""The device cpu: what the simulator asks of a device, done by NumPy."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.compute.evaluate import compiled
from openinfer.errors import DeviceError
from openinfer.expr.linear import linearise
from openinfer.loops.interpret import interpret
from openinfer.packing import repeated
from openinfer.scalars import converted, repeated_code
from openinfer_backend_cpu.buffers import CpuBuffer, Elements, beginning, elements, empty, own
from openinfer_backend_cpu.elementwise import bind_program
from openinfer_backend_cpu.folding import bind_fold
from openinfer_backend_cpu.registration import direct_form, stored_inputs
from openinfer_backend_cpu.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.ir.types import TensorType
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Fold
    from openinfer.plugins.types import KernelSpec
    from openinfer.scalars import Scalar
    from openinfer.simulate.devices.backend import Buffer, DirectCall

    Array: TypeAlias = npt.NDArray[Any]


class CpuBackend:
    """Runs calls at once, in the calling thread.

    Floats follow IEEE 754; NumPy's floating-point warnings stay as the caller set them.
    """

    def __init__(self, ordinal: int = 0) -> None:
        if ordinal:
            raise DeviceError(f"there is one device cpu, number 0; found number {ordinal}")
        self._workspace = Workspace()

    @property
    def name(self) -> str:
        return "cpu"

    def allocate(self, type: TensorType) -> CpuBuffer:
        """Return a new buffer filled with zeros."""
        buffer = empty(type)
        buffer.array.fill(0)
        return buffer

    def upload(self, type: TensorType, array: Array) -> CpuBuffer:
        """Return a buffer that is the array: nothing is copied or read."""
        return CpuBuffer(type, array)

    def write(self, buffer: Buffer, array: Array) -> None:
        """Replace the content of a buffer."""
        np.copyto(own(buffer).array, array, casting="no")

    def read(self, buffer: Buffer) -> Array:
        """Return a copy of the content of a buffer."""
        return own(buffer).array.copy()

    def bind_copy(self, source: Buffer, target: Buffer) -> BoundCall:
        """Return a call that copies a buffer to another of the same type."""
        return partial(np.copyto, own(target).array, own(source).array)

    def bind_fill(self, target: Buffer, value: Scalar) -> BoundCall:
        """Return a call that fills a buffer with one value."""
        buffer = own(target)
        dtype = buffer.type.dtype
        if dtype.is_packed:
            return partial(np.copyto, buffer.array, repeated(repeated_code(dtype, value), dtype, buffer.type.count))
        return partial(buffer.array.fill, np.array(converted(dtype, value)).astype(storage_dtype(dtype))[()])

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of a kernel, an `openinfer_backend_cpu.registration.Bind`.

        Where no output has an element nothing is computed, and nothing that inputs hold is an error.
        """
        if not any(buffer.type.count for buffer in outputs):
            return in_order([])
        bind = kernel.load()
        if not any(buffer is not None and buffer.type.dtype.is_packed for buffer in (*inputs, *outputs)):
            self._workspace.begin()
            given = [None if buffer is None else own(buffer).array for buffer in inputs]
            return bind(call, given, [own(buffer).array for buffer in outputs], self._workspace)
        sources = self._sources(inputs, stored_inputs(bind))
        targets = [elements(own(buffer), self._workspace) for buffer in outputs]
        arrays = [None if source is None else source.array for source in sources]
        work = bind(call, arrays, [target.array for target in targets], self._workspace)
        return _with_packing(sources, work, targets)

    def bind_expression(self, expr: Expr, inputs: Sequence[Buffer | None], output: Buffer) -> BoundCall:
        """Return a call that evaluates an elementwise expression."""
        program = linearise(expr)
        used = set(program.inputs)
        sources = self._sources([buffer if number in used else None for number, buffer in enumerate(inputs)])
        target = elements(own(output), self._workspace)
        arrays = [None if source is None else source.array for source in sources]
        return _with_packing(sources, bind_program(program, arrays, target.array, self._workspace), [target])

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Buffer, output: Buffer) -> BoundCall:
        """Return a call that reduces ``source`` over ``axes`` into ``output``."""
        self._workspace.begin()
        given, target = elements(own(source), self._workspace), elements(own(output), self._workspace)
        work = bind_fold(axes, fold, given.array, target.array, self._workspace)
        return _with_packing([given], work, [target])

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of an operator's stages, vectorised over the places of each stage."""
        sources = self._sources(inputs)
        targets = [elements(own(buffer), self._workspace) for buffer in outputs]
        given = {t.name: s.array for t, s in zip(computation.inputs, sources, strict=True) if s is not None}
        results = {t.name: target.array for t, target in zip(computation.outputs, targets, strict=True)}
        run, arrays = compiled(computation), {**given, **results}
        return _with_packing(sources, lambda: run(arrays, {}), targets)

    def bind_loops(self, kernel: Kernel, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> BoundCall:
        """Return a call that interprets an operator's loop program, element by element."""
        sources = self._sources(inputs)
        targets = [elements(own(buffer), self._workspace) for buffer in outputs]
        given = [source.array for source in sources if source is not None]
        arrays = [array.reshape(-1) for array in (*given, *(target.array for target in targets))]
        named = {buffer.name: array for buffer, array in zip(kernel.buffers, arrays, strict=True)}
        return _with_packing(sources, lambda: interpret(kernel, named), targets)

    def scalar_reader(self, buffer: Buffer) -> Callable[[], Scalar] | None:
        """Return a quick way to read a buffer of one element; None for types that Python has no number for."""
        array = own(buffer).array
        return None if buffer.type.dtype.is_packed or array.dtype.kind not in "fiub" else array.item

    def direct_kernel(self, kernel: KernelSpec, call: OpCall) -> DirectCall | None:
        """Return a call of a kernel for any buffers of the types of ``call``; None where it has no direct form."""
        form = direct_form(kernel.load())
        if form is None or any(kind is not None and kind.dtype.is_packed for kind in (*call.inputs, *call.outputs)):
            return None
        self._workspace.begin()
        work = form(call, self._workspace)
        if work is None:
            return None

        def run(inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]) -> None:
            given = [None if buffer is None else own(buffer).array for buffer in inputs]
            work(given, [own(buffer).array for buffer in outputs])

        return run

    def resized(self, buffer: Buffer, type: TensorType) -> CpuBuffer:
        """Return the beginning of a buffer as one of another type, which takes no more bytes."""
        return CpuBuffer(type, beginning(own(buffer).array, type))

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """Whether buffers share memory."""
        return np.may_share_memory(own(a).array, own(b).array)

    def _sources(self, inputs: Sequence[Buffer | None], stored: frozenset[int] = frozenset()) -> list[Elements | None]:
        """Begin to bind a call, and return the elements of its inputs, or of those in ``stored`` the bytes."""
        self._workspace.begin()
        found: list[Elements | None] = []
        for number, buffer in enumerate(inputs):
            if buffer is None:
                found.append(None)
            else:
                kept = number in stored
                found.append(Elements(own(buffer).array) if kept else elements(own(buffer), self._workspace))
        return found

    def synchronize(self) -> None:
        """Return at once: nothing is queued."""

    def concurrent_backend(self) -> CpuBackend:
        """Return a backend with scratch memory of its own, which is all that calls share."""
        return CpuBackend()

    def close(self) -> None:
        """Return at once: memory goes with its last user."""


def _with_packing(sources: Sequence[Elements | None], work: BoundCall, targets: Sequence[Elements]) -> BoundCall:
    loads = [s.load for s in sources if s is not None and s.load is not None]
    stores = [t.store for t in targets if t.store is not None]
    return in_order([*loads, work, *stores])
