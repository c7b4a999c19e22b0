"""What a device must be able to do for the simulator. Backends implement `DeviceBackend`; the executor drives it.

An executor makes all buffers and bound calls before the first step; a step is then a flat loop over bound calls. Every
method that returns a callable binds: the callable does the work on the given buffers each time it is called, and takes
and allocates nothing that it could have prepared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
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

    Array: TypeAlias = npt.NDArray[np.generic]
    """A host array in storage form: C-contiguous, the NumPy (or ml_dtypes) type of the element type, packed types as
    their packed bytes (``uint8`` of length ``TensorType.nbytes``)."""

    DirectCall: TypeAlias = Callable[[Sequence["Buffer | None"], Sequence["Buffer"]], object]
    """Works on inputs and outputs that it is given; no output is one of the inputs."""


class Buffer(Protocol):
    """Memory of a device that holds one tensor."""

    @property
    def type(self) -> TensorType: ...


class DeviceBackend(Protocol):
    """An opened device.

    Work may be queued; `read` and `synchronize` wait for it. A backend is used by one thread at a time.
    """

    @property
    def name(self) -> str:
        """Name of the device, with its ordinal where it is not 0."""
        ...

    def allocate(self, type: TensorType) -> Buffer:
        """Return a new buffer filled with zeros."""
        ...

    def upload(self, type: TensorType, array: Array) -> Buffer:
        """Return a buffer that holds ``array`` and is never written; a host device may return a view of it."""
        ...

    def write(self, buffer: Buffer, array: Array) -> None:
        """Replace the content of a buffer."""
        ...

    def read(self, buffer: Buffer) -> Array:
        """Return the content of a buffer as a private array."""
        ...

    def bind_copy(self, source: Buffer, target: Buffer) -> BoundCall:
        """Return a call that copies a buffer to another of the same type."""
        ...

    def bind_fill(self, target: Buffer, value: Scalar) -> BoundCall:
        """Return a call that fills a buffer with one value."""
        ...

    # What binds a kernel, an expression or a fold raises FeatureMissingError where this piece of hardware does not
    # have an optional feature that it needs: the operator then runs on the device's fallback, if it has one.

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of a hand-written kernel. No output is one of the inputs."""
        ...

    def bind_expression(self, expr: Expr, inputs: Sequence[Buffer | None], output: Buffer) -> BoundCall:
        """Return a call that evaluates an elementwise expression.

        ``Input(i)`` reads ``inputs[i]`` (None where an input was left out), broadcast to the shape of ``output``. The
        output may be an input of the same type.
        """
        ...

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Buffer, output: Buffer) -> BoundCall:
        """Return a call that reduces ``source`` over ``axes`` into ``output`` (which has as many elements as positions
        are left)."""
        ...

    def synchronize(self) -> None:
        """Wait until all work is done."""
        ...

    def concurrent_backend(self) -> DeviceBackend | None:
        """Return a second backend of the device for another thread, or None if the device supports one thread only.

        Both may run at the same time, and each may use the buffers of the other.
        """
        ...

    def close(self) -> None:
        """Release the device; buffers must not be used afterwards."""
        ...


@runtime_checkable
class ComputationBackend(DeviceBackend, Protocol):
    """A device that runs operators that are defined by stages."""

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of a computation on its inputs and outputs. No output is one of the inputs.

        `openinfer.plugin.bind_evaluator` returns one for what the device has no kernel for.

        A call that meets an element that is refused raises an `openinfer.errors.OpenInferError`, ``out-of-range``.
        """
        ...


@runtime_checkable
class LoopBackend(DeviceBackend, Protocol):
    """A device that runs operators that are defined by loop programs."""

    def bind_loops(self, kernel: Kernel, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> BoundCall:
        """Return a call of a loop program on its buffers, inputs first. No output is one of the inputs.

        `openinfer.plugin.bind_evaluator` returns one for what the device has no kernel for.

        A call that meets an element that is refused raises an `openinfer.errors.OpenInferError`, ``out-of-range``.
        """
        ...


@runtime_checkable
class TimedBackend(DeviceBackend, Protocol):
    """A device with a clock of its own, by which operators are timed: without the time that submission takes."""

    def timed_synchronize(self) -> int | None:
        """Wait until all work is done, and return nanoseconds that the device worked since the last such call.

        None: it did not work, or has no clock after all; the clock of the host is taken.
        """
        ...


@runtime_checkable
class DeferredFaultBackend(DeviceBackend, Protocol):
    """A device whose calls return before their kernels find out that they refuse an element (``out-of-range``).

    `read` and `synchronize` raise such a fault as well.
    """

    def begin_statement(self, statement: AbstractContextManager[object]) -> None:
        """Note whose calls follow: their faults are raised inside ``statement``, which names it."""
        ...

    def need_no_fault(self) -> None:
        """Wait for the calls so far, if one of them may have a fault.

        Raises:
            ExecutionError: ``out-of-range``: one has.
        """
        ...


@runtime_checkable
class LendingBackend(DeviceBackend, Protocol):
    """A device that reads arrays of the host where they lie, if they are in memory that it has lent."""

    def lend(self, type: TensorType) -> Array:
        """Return a new array in storage form with undefined elements.

        It stays readable and writable for as long as something refers to it, also after `close`. `write` may take it
        without a copy: the caller changes it no more, and work that uses it keeps its memory.

        Raises:
            DeviceError: the device is closed, or ``too-large``, it has no memory for the array.
        """
        ...


@runtime_checkable
class NativeBackend(DeviceBackend, Protocol):
    """A device whose handles other code of the same API may use."""

    def native_device(self) -> object:
        """Return the handles of the device, as its package documents them."""
        ...

    def native_buffer(self, buffer: Buffer) -> object:
        """Submit all work so far, and return the handle of a buffer.

        Other code may work on its content from here on, until the device is next waited for.
        """
        ...


@runtime_checkable
class HostBackend(DeviceBackend, Protocol):
    """A device whose memory the host reaches, so that buffers that come and go need not be bound to be worked on."""

    def scalar_reader(self, buffer: Buffer) -> Callable[[], Scalar] | None:
        """Return a quick way to read a buffer of one element; None where `read` has to do."""
        ...

    def direct_kernel(self, kernel: KernelSpec, call: OpCall) -> DirectCall | None:
        """Return a call of a kernel for any buffers of the types of ``call``; None where the kernel has to be bound."""
        ...

    def resized(self, buffer: Buffer, type: TensorType) -> Buffer:
        """Return the beginning of a buffer as one of another type, which takes no more bytes."""
        ...

    def overlap(self, a: Buffer, b: Buffer) -> bool:
        """Whether buffers share memory."""
        ...
