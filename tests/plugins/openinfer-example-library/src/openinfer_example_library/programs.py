"""Whole programs: the steps of a plan, with fused operators, as calls that the device binds once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import array_api_strict as xp
import numpy as np

from openinfer.plugin import OpenInferError, TensorType, UnsupportedError, filled, steps, values
from openinfer_example_library.memory import Memory, memory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.plugin import ExecutionPlan, compute
    from openinfer_example_library.backend import BoundCall, LibraryBackend


def program_of(
    device: LibraryBackend, plan: ExecutionPlan, inputs: Mapping[str, Memory], outputs: Mapping[str, Memory]
) -> Callable[[], bool]:
    """Return a call that runs a plan from its inputs to its outputs.

    It returns False where a step fails: core then runs the nodes one by one, and its error names the statement.

    Raises:
        UnsupportedError: a step has no form here, such as a loop or a branch. The program runs node by node.
    """
    sources = [inputs[port.name] for port in plan.inputs]
    targets = [outputs[port.name] for port in plan.outputs]
    memories = [_memory(device, plan, value, sources, targets) for value in plan.values]
    calls = [call for step in plan.procedures[-1].steps for call in _calls(device, step, memories, sources)]

    def run() -> bool:
        try:
            for call in calls:
                call()
        except OpenInferError:
            return False
        return True

    return run


def _memory(
    device: LibraryBackend,
    plan: ExecutionPlan,
    value: values.PlanValue,
    inputs: Sequence[Memory],
    outputs: Sequence[Memory],
) -> Memory:
    """Return the memory of a value: each has its own, also where the plan lets two share bytes of an arena."""
    match value.memory:
        case values.InputMemory(number):
            return inputs[number]
        case values.OutputMemory(number):
            return outputs[number]
        case values.WeightMemory(number):
            weight = plan.weights[number]
            form = filled(weight.type)
            return memory_of(weight.type, np.frombuffer(weight.data, form.dtype).reshape(form.shape))
        case values.ArenaMemory() | values.NoMemory():
            return device.allocate(value.type)
        case _:
            raise UnsupportedError(f"`{value.name}` is kept between steps")


def _calls(
    device: LibraryBackend, step: steps.Step, memories: Sequence[Memory], inputs: Sequence[Memory]
) -> list[BoundCall]:
    match step:
        case steps.ComputeStep(arguments=()):
            return _computed(device, step, memories)
        case steps.LoopProgramStep(kernel=kernel):
            return [device.bind_loops(kernel, _read(step.inputs, memories), _written(step.outputs, memories))]
        case steps.KernelStep(kernel=kernel, call=call, epilogue=None):
            read = _read([operand for operand in step.inputs if operand is not None], memories)
            return [device.bind_kernel(kernel, call, read, _written(step.outputs, memories))]
        case steps.CopyStep(source=source, output=output, count=None):
            (memory,) = _read([source], memories)
            return [_reshaped(memory, memories[output])]
        case steps.InputStep(number=number, output=output, count=None):
            return [device.bind_copy(inputs[number], memories[output])]
        case steps.FillStep(output=output, value=value):
            return [device.bind_fill(memories[output], value)]
        case steps.ReturnStep() | steps.BarrierStep(joins=()):
            return []
        case _:
            raise UnsupportedError(f"{type(step).__name__} has no form on the device {device.name}")


def _computed(device: LibraryBackend, step: steps.ComputeStep, memories: Sequence[Memory]) -> list[BoundCall]:
    """Return the call of a computation, between those that give operands its shapes.

    Memory of a plan is a row of elements: instead of a reshape, the next step reads a value in another shape.
    """
    tensors = (*step.computation.inputs, *step.computation.outputs)
    own = (*_read(step.inputs, memories), *_written(step.outputs, memories))
    shaped = [_in_shape(device, tensor, memory) for tensor, memory in zip(tensors, own, strict=True)]
    count = len(step.inputs)
    pairs = list(zip(own, shaped, strict=True))
    return [
        *(_reshaped(memory, view) for memory, view in pairs[:count] if view is not memory),
        device.bind_computation(step.computation, shaped[:count], shaped[count:]),
        *(_reshaped(view, memory) for memory, view in pairs[count:] if view is not memory),
    ]


def _in_shape(device: LibraryBackend, tensor: compute.Tensor, memory: Memory) -> Memory:
    kind = TensorType(tensor.dtype, tuple(extent.evaluate({}) for extent in tensor.shape))
    return memory if kind == memory.type else device.allocate(kind)


def _read(operands: Sequence[steps.Operand], memories: Sequence[Memory]) -> list[Memory]:
    numbers = [operand.value for operand in operands if isinstance(operand, steps.ValueRef)]
    if len(numbers) < len(operands):
        raise UnsupportedError("entries of tables and loop indices are only known while the program runs")
    return [memories[number] for number in numbers]


def _written(numbers: Sequence[int], memories: Sequence[Memory]) -> list[Memory]:
    return [memories[number] for number in numbers]


def _reshaped(source: Memory, target: Memory) -> BoundCall:
    """Return a call that copies elements in row-major order, of packed types the bytes."""
    shape = filled(target.type).shape
    return lambda: setattr(target, "array", xp.reshape(source.array, shape))
