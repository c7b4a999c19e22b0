"""The device vulkan: what the simulator asks of a device, done by compute shaders."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.compute.constants import without_constants
from openinfer.compute.evaluate import evaluate
from openinfer.dtypes import U32
from openinfer.errors import DeviceError, ExecutionError, FeatureMissingError, KernelMissingError, ShapeError
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.expr.tree import ExprError
from openinfer.ir.types import TensorType
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.scalars import converted
from openinfer.simulate.logs import LogKind, log
from openinfer_backend_vulkan.api.device import Device, extensions_of
from openinfer_backend_vulkan.api.native import API_VERSION, number_of
from openinfer_backend_vulkan.api.physical import shared_instance
from openinfer_backend_vulkan.glsl import contents
from openinfer_backend_vulkan.glsl.computations import shaders_of
from openinfer_backend_vulkan.glsl.shaders import workgroups
from openinfer_backend_vulkan.interop import SharedBuffer, SharedDevice
from openinfer_backend_vulkan.memory.blocks import Memory, StorageBuffer
from openinfer_backend_vulkan.memory.buffers import VulkanBuffer, own
from openinfer_backend_vulkan.memory.staging import Staging
from openinfer_backend_vulkan.programs.program import DeviceProgram
from openinfer_backend_vulkan.programs.sized_program import SizedDeviceProgram
from openinfer_backend_vulkan.queue.commands import CommandQueue, Copy, Dispatch, Fill
from openinfer_backend_vulkan.queue.engine import SMALL_BYTES, Engine
from openinfer_backend_vulkan.queue.faults import Faults, FaultWords
from openinfer_backend_vulkan.queue.lending import LentArrays
from openinfer_backend_vulkan.queue.pipelines import Pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from openinfer.compute import Computation, Tensor
    from openinfer.expr.tree import Expr
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Fold
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.types import KernelSpec
    from openinfer.scalars import Scalar
    from openinfer.simulate.devices.backend import Buffer
    from openinfer_backend_vulkan.glsl.computations import StageShaders
    from openinfer_backend_vulkan.glsl.shaders import Shader
    from openinfer_backend_vulkan.queue.hazards import Command

    Array: TypeAlias = npt.NDArray[Any]
    BoundCall: TypeAlias = Callable[[], None]


class VulkanBackend:
    """Queues calls; they run when a buffer is read or written that they use, or at `synchronize`."""

    def __init__(self, ordinal: int = 0) -> None:
        """Open the device of that number.

        Raises:
            DeviceError: there is no such device, it cannot compute, or its driver refuses.
        """
        self._device = Device(ordinal)
        log(LogKind.VK_TRACE, f"opened {self._device.physical.name} as {self.name}")
        self._memory = Memory(self._device)
        self._staging = Staging(self._device, self._memory)
        self._pipelines = Pipelines(self._device)
        self._queue = CommandQueue(self._device, self._staging)
        self._lent = LentArrays(self._device, self._memory, self._queue)
        self._faults = Faults()
        self._engine = Engine(self._device, self._memory, self._staging, self._pipelines, self._queue)

    @property
    def name(self) -> str:
        return self._device.name

    def allocate(self, type: TensorType) -> VulkanBuffer:
        """Return a new buffer filled with zeros.

        Raises:
            DeviceError: memory is used up, or the tensor is larger than a buffer may be.
        """
        buffer = self._buffer(type, is_small=type.nbytes <= SMALL_BYTES)
        if buffer.storage.is_mapped:
            buffer.storage.view(np.dtype(np.uint32))[:] = 0
        else:
            self._queue.enqueue(Fill(target=buffer.storage, word=0))
        return buffer

    def upload(self, type: TensorType, array: Array) -> VulkanBuffer:
        """Return a buffer that holds a copy of the array.

        Raises:
            DeviceError: as for `allocate`.
        """
        buffer = self._buffer(type)
        self._store(buffer, array)
        return buffer

    def write(self, buffer: Buffer, array: Array) -> None:
        """Replace the content of a buffer, after the work that uses it; the device copies a lent array itself."""
        self._device.need_open()
        target = own(buffer)
        copy = self._lent.copied(array, target.storage)
        if copy is not None:
            self._queue.enqueue(copy)
            return
        if target.storage.is_mapped:
            if self._queue.is_using(target.storage):
                self._queue.synchronize()
        elif self._queue.is_waiting(target.storage):
            self._queue.submit()
        self._store(target, array)

    def lend(self, type: TensorType) -> Array:
        """Return an array in mapped memory, as `openinfer.simulate.devices.backend.LendingBackend` says."""
        return self._lent.lend(type)

    def read(self, buffer: Buffer) -> Array:
        """Return the content of a buffer, after all work, as a private array."""
        source = own(buffer)
        if source.storage.is_mapped:
            self.synchronize()
            held = source.storage.view(np.dtype(np.uint8), source.type.nbytes)
            return contents.array_of(source.type, held.copy())
        self._device.need_open()
        self._queue.submit()
        content = self._staging.download(source.storage, source.type.nbytes)
        self.synchronize()
        return contents.array_of(source.type, content)

    def bind_copy(self, source: Buffer, target: Buffer) -> BoundCall:
        """Return a call that copies a buffer to another of the same type."""
        self._device.need_open()
        nbytes = own(target).type.nbytes
        if not nbytes:
            return _do_nothing
        return self._enqueuing(Copy(source=own(source).storage, target=own(target).storage, nbytes=nbytes))

    def bind_fill(self, target: Buffer, value: Scalar) -> BoundCall:
        """Return a call that fills a buffer with one value."""
        buffer = own(target)
        dtype = buffer.type.dtype
        if dtype.bits == 64:
            return self.bind_expression(tree.literal(converted(dtype, value), dtype), [], buffer)
        word = contents.fill_word(dtype, converted(dtype, value))
        return self._enqueuing(Fill(target=buffer.storage, word=word))

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of a kernel of another distribution: a function that returns the `Shader` of a call.

        Inputs that are left out have no binding.
        """
        shader: Shader = kernel.load()(call)
        return self._bound(shader, [own(b) for b in inputs if b is not None], [own(b) for b in outputs])

    def bind_expression(self, expr: Expr, inputs: Sequence[Buffer | None], output: Buffer) -> BoundCall:
        """Return a call that evaluates an elementwise expression.

        Raises:
            KernelMissingError: shaders cannot compute in a type of the expression.
            FeatureMissingError: the device does not have an optional feature that it needs, such as 64-bit integers.
        """
        read = {number: _given(inputs, number) for number in linearise(expr).inputs}
        numbers = {number: tree.Input(position, b.type.dtype) for position, (number, b) in enumerate(read.items())}
        types = [buffer.type for buffer in read.values()]
        target = own(output)
        computation = expression_computation("expression", tree.substitute(expr, numbers), types, target.type)
        return self.bind_computation(computation, list(read.values()), [target])

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Buffer, output: Buffer) -> BoundCall:
        """Return a call that reduces ``source`` over ``axes`` into ``output``.

        Raises:
            KernelMissingError: shaders cannot compute in a type of the fold.
            FeatureMissingError: as for `bind_expression`.
            ShapeError: there is nothing to fold and the fold has no start.
        """
        operand, target = own(source), own(output)
        if fold.start is None and target.type.count and not operand.type.count:
            raise ShapeError(f"a slice over axes {list(axes)} of shape {list(operand.type.shape)} is empty")
        computation = fold_computation("reduction", axes, fold, operand.type, target.type)
        return self.bind_computation(computation, [operand], [target])

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of an operator's stages, one shader after the other.

        Raises:
            KernelMissingError: shaders cannot compute in a type of the stages, or take too many iterations of a loop.
            FeatureMissingError: as for `bind_expression`.
        """
        operands = zip((*computation.inputs, *computation.outputs), (*inputs, *outputs), strict=True)
        buffers = {tensor.name: own(buffer) for tensor, buffer in operands}
        constant, computation = without_constants(computation)
        for tensor, table in zip(constant.outputs, evaluate(constant, ()), strict=True):
            buffers[tensor.name] = self.upload(_type(tensor), table)
        try:
            stages = shaders_of(computation, self._device.physical.shader_target)
        except ExprError as error:
            raise _missing(computation.name, error) from error
        except KernelMissingError as error:
            message = f"{self._device.physical.name} cannot compute this {computation.name}: {error}"
            raise type(error)(message) from error
        used = {name for stage in stages for name in (*stage.reads, *stage.writes)}
        for tensor in computation.temporaries:
            if tensor.name in used:
                buffers[tensor.name] = self._buffer(_type(tensor))
        return _in_turn([call for stage in stages for call in self._bound_stage(stage, buffers)])

    def _bound_stage(self, stage: StageShaders, tensors: Mapping[str, VulkanBuffer]) -> list[BoundCall]:
        buffers = {**tensors, **{name: self._buffer(kind) for name, kind in stage.scratch.items()}}
        reads, writes = ([buffers[name] for name in names] for names in (stage.reads, stage.writes))
        return [self._bound(shader, reads, writes) for shader in stage.shaders]

    def bind_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> Callable[[], bool]:
        """Return a call that runs a whole program without state; False: it failed.

        Raises:
            KernelMissingError, UnsupportedError: a step has no form on this device.
            DeviceError: the device has no memory for it.
        """
        program = self.open_program(plan, inputs, outputs)
        return lambda: program.step() is None

    def open_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> DeviceProgram:
        """Return a whole program with its state; raises as `bind_program` does."""
        self._device.need_open()
        own_inputs = {name: own(buffer) for name, buffer in inputs.items()}
        return DeviceProgram(plan, own_inputs, {name: own(buffer) for name, buffer in outputs.items()}, self._engine)

    def open_sized_program(self, plan: ExecutionPlan) -> SizedDeviceProgram:
        """Return a whole program for steps of all sizes up to the largest of its plan.

        Raises:
            DeviceError: the device is closed, or has no memory for it.
        """
        self._device.need_open()
        return SizedDeviceProgram(plan, self.allocate, self._engine)

    def synchronize(self) -> None:
        """Wait until all work is done.

        Raises:
            DeviceError: the device is lost, or closed.
            ExecutionError: ``out-of-range``, an index that a kernel used since the last time.
        """
        self._device.need_open()
        self._queue.synchronize()
        self._faults.check()

    def begin_statement(self, statement: AbstractContextManager[object]) -> None:
        """Note whose calls follow, as `openinfer.simulate.devices.backend.DeferredFaultBackend` says."""
        self._faults.statement = statement

    def need_no_fault(self) -> None:
        """Wait if calls since the last time may have a fault; raises as `synchronize` does."""
        if self._faults.is_watching:
            self.synchronize()

    def timed_synchronize(self) -> int | None:
        """Wait as `synchronize` does; return nanoseconds that the device worked since the last time.

        None: it did not work, or has no clock.

        Raises:
            DeviceError, ExecutionError: as for `synchronize`.
        """
        self._device.need_open()
        worked = self._queue.timed_synchronize()
        self._faults.check()
        return worked

    def native_device(self) -> SharedDevice:
        """Return the handles of the device for other Vulkan code.

        Raises:
            DeviceError: the device is closed.
        """
        self._device.need_open()
        physical = self._device.physical
        handles = (shared_instance(), physical.handle, self._device.handle, self._device.queue)
        instance, physical_device, device, queue = map(number_of, handles)
        return SharedDevice(
            instance=instance,
            physical_device=physical_device,
            device=device,
            queue=queue,
            queue_family=physical.queue_family or 0,
            queue_index=0,
            api_version=API_VERSION,
            extensions=extensions_of(physical),
            features=tuple(sorted(physical.features)),
            lock=self._device.lock,
        )

    def native_buffer(self, buffer: Buffer) -> SharedBuffer:
        """Return the handle of a buffer for other Vulkan code, after submitting all work so far.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._device.need_open()
        kind, storage = own(buffer).type, own(buffer).storage
        self._queue.share(storage)
        return SharedBuffer(type=kind, buffer=number_of(storage.handle), offset=storage.offset, nbytes=kind.nbytes)

    def concurrent_backend(self) -> None:
        """Return None: the queue of the device serves one thread."""

    def close(self) -> None:
        """Release the device; buffers and bound calls must not be used afterwards. Closing twice does nothing."""
        if self._device.closed:
            return
        with contextlib.suppress(DeviceError):
            self._queue.forget()
        self._device.close()

    def _buffer(self, kind: TensorType, *, is_small: bool = False) -> VulkanBuffer:
        self._device.need_open()
        make = self._memory.mapped if is_small else self._memory.tensor
        try:
            return VulkanBuffer(kind, make(kind.nbytes))
        except DeviceError as error:
            if error.code != "too-large":
                raise
            raise DeviceError(f"no memory for a tensor {kind}: {error}", code="too-large") from error

    def _store(self, buffer: VulkanBuffer, array: Array) -> None:
        content = contents.bytes_of(array)
        if buffer.storage.is_mapped:
            np.copyto(buffer.storage.view(content.dtype, content.size), content)
        else:
            self._staging.upload(buffer.storage, content)

    def _bound(self, shader: Shader, inputs: Sequence[VulkanBuffer], outputs: Sequence[VulkanBuffer]) -> BoundCall:
        self._device.need_open()
        missing = shader.features - self._device.physical.features
        if missing:
            needed = ", ".join(sorted(missing))
            raise FeatureMissingError(f"{self._device.physical.name} does not support what a kernel needs: {needed}")
        if shader.threads == 0:
            return _do_nothing
        writes = [b.storage for b in outputs]
        words = FaultWords(self._memory.mapped(4 * len(shader.faults)), shader.faults) if shader.faults else None
        if words is not None:
            writes.append(words.storage)
        enqueue = self._enqueuing(self._dispatch(shader, [b.storage for b in inputs], writes))
        return enqueue if words is None else self._watching(words, enqueue)

    def _watching(self, words: FaultWords, enqueue: BoundCall) -> BoundCall:
        def run() -> None:
            enqueue()
            self._faults.watch(words)

        return run

    def _dispatch(self, shader: Shader, reads: Sequence[StorageBuffer], writes: Sequence[StorageBuffer]) -> Dispatch:
        pushed = shader.parameters if shader.is_pushed else ()
        parameters = [] if shader.is_pushed else [self._parameters(shader.parameters)]
        pipeline = self._pipelines.pipeline(shader.source, len(reads) + len(writes) + len(parameters), len(pushed))
        return Dispatch(
            pipeline=pipeline,
            bound=self._pipelines.bind(pipeline, [*reads, *writes, *parameters]),
            groups=workgroups(shader.threads, self._device.physical.max_groups, shader.group_size),
            pushed=pushed,
            reads=(*reads, *parameters),
            writes=tuple(writes),
        )

    def _parameters(self, numbers: tuple[int, ...]) -> StorageBuffer:
        words = (np.array(numbers, np.int64) & 0xFFFFFFFF).astype(np.uint32)
        return self.upload(TensorType(U32, words.shape), words).storage

    def _enqueuing(self, command: Command) -> BoundCall:
        return partial(self._queue.enqueue, command)


def _type(tensor: Tensor) -> TensorType:
    return TensorType(tensor.dtype, tuple(extent.evaluate({}) for extent in tensor.shape))


def _given(inputs: Sequence[Buffer | None], number: int) -> VulkanBuffer:
    buffer = inputs[number] if number < len(inputs) else None
    if buffer is None:
        raise ExecutionError(f"a kernel reads input {number}, which was left out")
    return own(buffer)


def _in_turn(calls: Sequence[BoundCall]) -> BoundCall:
    def run() -> None:
        for call in calls:
            call()

    return run


def _missing(what: str, error: ExprError) -> KernelMissingError:
    return KernelMissingError(f"the device vulkan cannot compute this {what}: {error}")


def _do_nothing() -> None:
    """The call of an operator without output elements."""
