"""The device c: synthesised programs, compiled and called in this process.

A step is one call of the whole program, as it would be shipped. Where somebody inspects nodes, every operator is a
function of the target's own C code; these are compiled together when the first of them is called.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.arch import DeviceArch
from openinfer.array_types import storage_dtype
from openinfer.compute.in_order import keeps_order
from openinfer.errors import DeviceError, OpenInferError, ShapeError
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.layout import row_major
from openinfer.ops.derived import expression_computation, fold_computation
from openinfer.packing import repeated
from openinfer.plan.schedules import read_schedules
from openinfer.plan.steps import Arrangement, ComputeStep, KernelStep, LoopProgramStep, ValueRef
from openinfer.scalars import converted, repeated_code
from openinfer.schedule import choose
from openinfer_synth_c.profiles import host
from openinfer_synth_c.program_calls import CompiledModel, PlanInstance, bind_plan
from openinfer_synth_c.step_calls import StepCalls
from openinfer_synth_c.step_functions import NOWHERE, step_function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import Fold
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.schedules import ScheduleFile
    from openinfer.plan.steps import Step
    from openinfer.plugins.types import KernelSpec
    from openinfer.scalars import Scalar
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer_synth_c.step_functions import StepFunction

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class CBuffer:
    """A tensor in memory; ``array`` is in storage form (packed types: their bytes)."""

    type: TensorType
    array: Array


@cache
def _host() -> DeviceArch | None:
    try:
        return DeviceArch.load(host())
    except OpenInferError:
        return None


class CDevice:
    """Runs calls at once, in the calling thread."""

    def __init__(self, ordinal: int = 0) -> None:
        if ordinal:
            raise DeviceError(f"there is one device c, number 0; found number {ordinal}")
        here = _host()
        self._machine = None if here is None else here.machine
        self._has_vector_types = here is not None and here.compiler.has_vector_types
        self._calls = StepCalls(() if here is None else here.compiler.flags)

    @property
    def name(self) -> str:
        return "c"

    @property
    def arch(self) -> DeviceArch | None:
        """This machine, which whole programs are laid out for; None where the compiler does not say what it is."""
        return _host()

    @property
    def schedules(self) -> ScheduleFile | None:
        """Schedules of whole programs, from the file that ``OPENINFER_C_SCHEDULES`` names; None without it.

        Raises:
            SynthesisError: it is not a file of schedules.
            OSError: it cannot be read.
        """
        path = os.environ.get("OPENINFER_C_SCHEDULES")
        return read_schedules(path) if path else None

    def allocate(self, type: TensorType) -> CBuffer:
        """Return a new buffer filled with zeros."""
        if type.dtype.is_packed:
            return CBuffer(type, np.zeros(type.nbytes, np.uint8))
        return CBuffer(type, np.zeros(type.shape, storage_dtype(type.dtype)))

    def upload(self, type: TensorType, array: Array) -> CBuffer:
        """Return a buffer that is the array, or a copy where its elements are not aligned."""
        return CBuffer(type, np.require(array, requirements=("C", "A")))

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
        if not dtype.is_packed:
            return partial(buffer.array.fill, np.array(converted(dtype, value)).astype(storage_dtype(dtype)))
        return partial(np.copyto, buffer.array, repeated(repeated_code(dtype, value), dtype, buffer.type.count))

    def bind_kernel(
        self, kernel: KernelSpec, call: OpCall, inputs: Sequence[Buffer | None], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of one of the target's kernels."""
        given = [own(buffer) for buffer in inputs if buffer is not None]
        numbers = iter(range(len(given)))
        operands = tuple(None if buffer is None else ValueRef(next(numbers)) for buffer in inputs)
        results = tuple(range(len(given), len(given) + len(outputs)))
        step = KernelStep(origin=NOWHERE, call=call, kernel=kernel, inputs=operands, outputs=results)
        return self._bound(step, given, [own(buffer) for buffer in outputs], call.op)

    def bind_expression(self, expr: Expr, inputs: Sequence[Buffer | None], output: Buffer) -> BoundCall:
        """Return a call that evaluates an elementwise expression."""
        given: list[CBuffer] = []
        numbers: dict[int, Expr] = {}
        for index in linearise(expr).inputs:
            buffer = inputs[index]
            if buffer is None:
                raise ValueError(f"the expression reads input {index}, which was not given")
            numbers[index] = tree.Input(len(given), own(buffer).type.dtype)
            given.append(own(buffer))
        body, types = tree.substitute(expr, numbers), [buffer.type for buffer in given]
        computation = expression_computation("expression", body, types, own(output).type)
        return self._computed(computation, given, [own(output)], "an expression")

    def bind_fold(self, axes: tuple[int, ...], fold: Fold, source: Buffer, output: Buffer) -> BoundCall:
        """Return a call that reduces ``source`` over ``axes`` into ``output``.

        Raises:
            ShapeError: the fold starts with its first element, and there is none.
        """
        if fold.start is None and output.type.count and not source.type.count:
            raise ShapeError(f"a slice over axes {list(axes)} of {source.type} is empty")
        computation = fold_computation("fold", axes, fold, own(source).type, own(output).type)
        return self._computed(computation, [own(source)], [own(output)], "a reduction")

    def bind_computation(
        self, computation: Computation, inputs: Sequence[Buffer], outputs: Sequence[Buffer]
    ) -> BoundCall:
        """Return a call of an operator's stages."""
        if keeps_order(computation):
            (source,), (target,) = inputs, outputs
            return partial(np.copyto, own(target).array.reshape(-1), own(source).array.reshape(-1))
        return self._computed(
            computation, [own(buffer) for buffer in inputs], list(map(own, outputs)), computation.name
        )

    def _computed(
        self, computation: Computation, given: Sequence[CBuffer], outputs: Sequence[CBuffer], what: str
    ) -> BoundCall:
        types = [TensorType(t.dtype, tuple(e.evaluate({}) for e in t.shape)) for t in computation.temporaries]
        written = [*outputs, *map(self.allocate, types)]
        numbers = range(len(given), len(given) + len(written))
        step = ComputeStep(
            origin=NOWHERE,
            op=computation.name,
            computation=computation,
            inputs=tuple(ValueRef(number) for number in range(len(given))),
            outputs=tuple(numbers[: len(outputs)]),
            temporaries=tuple(numbers[len(outputs) :]),
        )
        return self._bound(step, given, written, what)

    def _arranged(self, computation: Computation) -> Arrangement:
        """Return the schedules that a whole program has where it does the same step on tensors in row-major order."""
        if self._machine is None:
            return Arrangement()
        tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
        layouts = {tensor.name: row_major(tensor.shape) for tensor in tensors}
        schedules = tuple(choose(stage, layouts, self._machine) for stage in computation.stages)
        return Arrangement(schedules=schedules, target=self._machine)

    def bind_loops(self, kernel: Kernel, inputs: Sequence[Buffer], outputs: Sequence[Buffer]) -> BoundCall:
        """Return a call of an operator's loop program."""
        given, written = [own(buffer) for buffer in inputs], [own(buffer) for buffer in outputs]
        step = LoopProgramStep(
            origin=NOWHERE,
            op=kernel.name,
            kernel=kernel,
            inputs=tuple(ValueRef(number) for number in range(len(given))),
            outputs=tuple(range(len(given), len(given) + len(written))),
        )
        return self._bound(step, given, written, kernel.name)

    def bind_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> Callable[[], bool]:
        """Return a call that runs a whole program.

        Raises:
            SynthesisError, DeviceError: it cannot be written out or compiled.
        """
        given = [own(inputs[port.name]).array for port in plan.inputs]
        return bind_plan(plan, given, [own(outputs[port.name]).array for port in plan.outputs])

    def open_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> PlanInstance:
        """Return an instance of a program that keeps its state.

        Raises:
            SynthesisError, DeviceError: it cannot be written out or compiled.
        """
        return _bound_instance(CompiledModel(plan), inputs, outputs)

    def open_sized_program(self, plan: ExecutionPlan) -> SizedModel:
        """Return a program for steps of all sizes up to the largest of its plan.

        Raises:
            SynthesisError, DeviceError: it cannot be written out or compiled.
        """
        return SizedModel(CompiledModel(plan))

    def _bound(self, step: Step, inputs: Sequence[CBuffer], outputs: Sequence[CBuffer], what: str) -> BoundCall:
        types = tuple(b.type for b in inputs), tuple(b.type for b in outputs)
        written = _Written(self.written, step, *types)
        return self._calls.bind(written, [b.array for b in inputs], [b.array for b in outputs], what)

    def written(self, step: Step, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> StepFunction:
        """Return the function of a step on operands of these types."""
        if isinstance(step, ComputeStep):
            step = replace(step, arrangement=self._arranged(step.computation))
        return step_function(step, inputs, outputs, has_vector_types=self._has_vector_types)

    def synchronize(self) -> None:
        """Return at once: nothing is queued."""

    def concurrent_backend(self) -> DeviceBackend | None:
        """Return another opened device: functions that hold memory of their own wait for one another."""
        return CDevice()

    def close(self) -> None:
        """Return at once: memory goes with its last user."""


@dataclass(frozen=True, slots=True, eq=False)
class SizedModel:
    """A compiled model for steps of many sizes, with its state."""

    model: CompiledModel

    def at(self, sizes: Mapping[str, int], inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]) -> PlanInstance:
        """Return the model for steps of some sizes, on buffers by name; see `SizedProgram.at`."""
        return _bound_instance(self.model, inputs, outputs, sizes)


def _bound_instance(
    model: CompiledModel,
    inputs: Mapping[str, Buffer],
    outputs: Mapping[str, Buffer],
    sizes: Mapping[str, int] | None = None,
) -> PlanInstance:
    given = [own(inputs[port.name]).array for port in model.plan.inputs]
    return PlanInstance(model, given, [own(outputs[port.name]).array for port in model.plan.outputs], sizes)


@dataclass(frozen=True, slots=True)
class _Written:
    """Writes the function of a step. Those of equal steps are equal, so that each is written and compiled once."""

    write: Callable[[Step, Sequence[TensorType], Sequence[TensorType]], StepFunction]
    step: Step
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]

    def __call__(self) -> StepFunction:
        return self.write(self.step, self.inputs, self.outputs)


def own(buffer: Buffer) -> CBuffer:
    """Return a buffer of this device as what it is.

    Raises:
        TypeError: it is memory of another device.
    """
    if not isinstance(buffer, CBuffer):
        raise TypeError(f"expected a buffer of the device c, found {type(buffer).__name__}")
    return buffer
