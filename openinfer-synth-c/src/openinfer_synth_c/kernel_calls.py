"""Computations of a plan as calls of functions: what is handed over, and what may lie in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.codegen import loop_program, operands_of
from openinfer.plan.steps import ComputeStep, LoopIndex, ValueRef
from openinfer.plan.values import ArenaMemory
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.kernel_functions import Parameter
from openinfer_synth_c.operands import Binder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import LoopProgramStep, Operand
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.kernel_functions import KernelFunction, KernelFunctions
    from openinfer_synth_c.names import Names


def results_of(step: ComputeStep | LoopProgramStep) -> tuple[int, ...]:
    """Return the values that a step writes: its outputs, then its temporaries."""
    return (*step.outputs, *step.temporaries) if isinstance(step, ComputeStep) else step.outputs


def uses_vectors(plan: ExecutionPlan) -> bool:
    """Return whether loops over lanes are written with vector types: where the compiler of the device has them."""
    return plan.arch is not None and plan.arch.compiler.dialect == "vector"


def write_call(
    code: Code, names: Names, plan: ExecutionPlan, step: ComputeStep | LoopProgramStep, functions: KernelFunctions
) -> None:
    """Append the call of a step's function; values without elements are handed over as they are."""
    kernel, given = loop_program(step), operands_of(step)
    if not kernel.body:
        return
    operands = tuple(given.values())
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    parameters = tuple(
        Parameter(
            buffers[name],
            is_written=number >= len(step.inputs),
            is_alone=not any(_share(plan, operand, other) for place, other in enumerate(operands) if place != number),
            is_pointer=not isinstance(operand, LoopIndex),
        )
        for number, (name, operand) in enumerate(given.items())
    )
    function = functions.of(kernel, parameters)
    arguments = [given[parameter.buffer.name] for parameter in function.parameters]
    if all(isinstance(argument, ValueRef) for argument in arguments) and not function.has_status:
        _write(code, Binder(code, names, plan), function, arguments, names)
    else:
        with code.braces():
            _write(code, Binder(code, names, plan), function, arguments, names)
    for value in results_of(step):
        type_ = names.type_of_value(value)
        if type_.dtype.is_packed and type_.count * type_.dtype.bits % 8:
            Bound(names.value(value), type_, code).clear_tail()


def _write(code: Code, binder: Binder, function: KernelFunction, arguments: Sequence[Operand], names: Names) -> None:
    texts = [
        names.value(argument.value) if isinstance(argument, ValueRef) else binder.input(argument, f"x{number}").variable
        for number, argument in enumerate(arguments)
    ]
    call = f"{function.name}({', '.join(texts)})"
    if function.has_status:
        code.line(f"const enum model_status status = {call};", "if (status != MODEL_OK) { return status; }")
    else:
        code.line(f"{call};")


def _share(plan: ExecutionPlan, one: Operand, other: Operand) -> bool:
    """Whether two operands may lie in the same memory."""
    if one == other:
        return True
    if not isinstance(one, ValueRef) or not isinstance(other, ValueRef):
        return False
    first, second = plan.values[one.value], plan.values[other.value]
    if not isinstance(first.memory, ArenaMemory) or not isinstance(second.memory, ArenaMemory):
        return first.memory == second.memory
    start, end = first.memory.offset, first.memory.offset + first.stored.nbytes
    return start < second.memory.offset + second.stored.nbytes and second.memory.offset < end
