"""Computations of a plan as calls of functions: what is handed over, and what may lie in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.codegen import loop_program, operands_of
from openinfer.expr.c_renderer import item_type
from openinfer.plan.accesses import operands
from openinfer.plan.steps import ComputeStep, LoopIndex, TableRef, ValueRef
from openinfer.plan.values import ArenaMemory, StateMemory, ViewMemory
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.integers import declare_integers
from openinfer_synth_c.kernel_functions import Parameter
from openinfer_synth_c.operands import Binder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Argument, LoopProgramStep, Operand, Step
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.kernel_functions import KernelFunction, KernelFunctions
    from openinfer_synth_c.names import Names

MOST_SPLITS = 100
"""Values that the analyser Eva follows one by one without an option that says more."""


def results_of(step: ComputeStep | LoopProgramStep) -> tuple[int, ...]:
    """Return the values that a step writes: its outputs, then its temporaries."""
    return (*step.outputs, *step.temporaries) if isinstance(step, ComputeStep) else step.outputs


def has_vector_types(plan: ExecutionPlan) -> bool:
    """Return whether vectors have the types of GCC and Clang: where the compiler of the device has them."""
    return plan.arch is not None and plan.arch.compiler.dialect == "vector"


def write_call(
    code: Code, names: Names, plan: ExecutionPlan, step: ComputeStep | LoopProgramStep, functions: KernelFunctions
) -> None:
    """Append the call of a step's function; values without elements are handed over as they are."""
    kernel, given = loop_program(step), operands_of(step)
    if not kernel.body:
        write_tests(code, names, plan, step)
        return
    bound = tuple(given.values())
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    parameters = tuple(
        Parameter(
            buffers[name],
            is_written=number >= len(step.inputs),
            is_alone=not any(_share(plan, operand, other) for place, other in enumerate(bound) if place != number),
            is_pointer=not isinstance(operand, LoopIndex),
        )
        for number, (name, operand) in enumerate(given.items())
    )
    function = functions.of(kernel, parameters)
    counts = step.arguments if isinstance(step, ComputeStep) else ()
    arguments = [given[parameter.buffer.name] for parameter in function.parameters]
    _test_entries(code, names, plan, [operand for operand in step.inputs if operand not in arguments])
    if all(isinstance(argument, ValueRef) for argument in arguments) and not function.has_status and not counts:
        _write(code, Binder(code, names, plan), function, arguments, names)
    else:
        with code.braces():
            sizes = _sizes(code, names, counts)
            splits = _splits(plan, arguments, counts)
            code.line(*(f"/*@ split {sizes[place]}; */" for place in splits))
            _write(code, Binder(code, names, plan), function, arguments, names, sizes)
            code.line(*(f"/*@ merge {sizes[place]}; */" for place in reversed(splits)))
    for value in results_of(step):
        type_ = names.type_of_value(value)
        if type_.dtype.is_packed and type_.count * type_.dtype.bits % 8:
            Bound(names.value(value), type_, code).clear_tail()


def write_tests(code: Code, names: Names, plan: ExecutionPlan, step: Step) -> None:
    """Append the tests of a step that has no element to compute: it fails like any other where indices are wrong."""
    _test_entries(code, names, plan, operands(step))
    if isinstance(step, ComputeStep) and step.arguments:
        with code.braces():
            _sizes(code, names, step.arguments)


def _test_entries(code: Code, names: Names, plan: ExecutionPlan, unread: Sequence[Operand]) -> None:
    """Append the tests that entries of tables exist, which nothing reads."""
    entries = dict.fromkeys(operand for operand in unread if isinstance(operand, TableRef) and operand.checked)
    if not entries:
        return
    with code.braces():
        binder = Binder(code, names, plan)
        for number, entry in enumerate(entries):
            code.line(f"(void){binder.input(entry, f'x{number}').variable};")


def _sizes(code: Code, names: Names, arguments: Sequence[Argument]) -> list[str]:
    """Append the values of parameters and their tests; return their names."""
    found = [f"count{place}" for place in range(len(arguments))]
    values = {name: argument.value for name, argument in zip(found, arguments, strict=True)}
    declare_integers(code, names, values, flag="count_overflow")
    for name, argument in zip(found, arguments, strict=True):
        code.line(f"if ({name} < {argument.low} || {name} > {argument.high}) {{ return MODEL_INDEX; }}")
    return found


def _splits(plan: ExecutionPlan, operands: Sequence[Operand], counts: Sequence[Argument]) -> list[int]:
    """Return the sizes whose values the analyser Eva is to follow one by one, few together.

    Intervals alone do not say that the parts of a loop end where a state ends, and behind it ends its memory.
    """
    values = [plan.values[operand.value].memory for operand in operands if isinstance(operand, ValueRef)]
    states = [plan.values[memory.state].memory if isinstance(memory, ViewMemory) else memory for memory in values]
    if not any(isinstance(memory, StateMemory) and memory.bank is not None for memory in states):
        return []
    found, product = list[int](), 1
    for place, argument in enumerate(counts):
        if product * (argument.high - argument.low + 1) <= MOST_SPLITS:
            product *= argument.high - argument.low + 1
            found.append(place)
    return found


def _write(
    code: Code,
    binder: Binder,
    function: KernelFunction,
    arguments: Sequence[Operand],
    names: Names,
    sizes: Sequence[str] = (),
) -> None:
    texts = [
        _value(names, argument, parameter)
        if isinstance(argument, ValueRef)
        else binder.input(argument, f"x{number}").variable
        for number, (argument, parameter) in enumerate(zip(arguments, function.parameters, strict=True))
    ]
    texts += [f"(ptrdiff_t){name}" for name in sizes]
    texts += [code.lend_scratch(function.scratch_nbytes)] if function.scratch_nbytes else []
    call = f"{function.name}({', '.join(texts)})"
    if function.has_status:
        code.line(f"const enum model_status status = {call};", "if (status != MODEL_OK) { return status; }")
    else:
        code.line(f"{call};")


def _value(names: Names, argument: ValueRef, parameter: Parameter) -> str:
    """Return the address of a value. Bytes may be read or written as words, which the address is a multiple of."""
    text, dtype = names.value(argument.value), parameter.buffer.dtype
    if names.type_of(argument).dtype is dtype:
        return text
    const = "" if parameter.is_written else "const "
    return f"({const}{item_type(dtype)} *)({const}void *){text}"


def _share(plan: ExecutionPlan, one: Operand, other: Operand) -> bool:
    """Whether two operands may lie in the same memory."""
    if one == other:
        return True
    if not isinstance(one, ValueRef) or not isinstance(other, ValueRef):
        return False
    first, second = plan.values[one.value], plan.values[other.value]
    if not isinstance(first.memory, ArenaMemory) or not isinstance(second.memory, ArenaMemory):
        return first.memory == second.memory
    if first.memory.bank != second.memory.bank:
        return False
    start, end = first.memory.offset, first.memory.offset + first.stored.nbytes
    return start < second.memory.offset + second.stored.nbytes and second.memory.offset < end
