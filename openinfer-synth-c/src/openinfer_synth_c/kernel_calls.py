"""Computations of a plan as calls of functions: what is handed over, and what may lie in the same memory."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.arch import WORD_NBYTES
from openinfer.codegen import loop_program, operands_of
from openinfer.compute.lengths import shared_lengths
from openinfer.dtypes import I8, U8
from openinfer.expr.c_renderer import item_type
from openinfer.plan.accesses import operands
from openinfer.plan.steps import ComputeStep, LoopIndex, TableRef, ValueRef
from openinfer.plan.values import ArenaMemory
from openinfer.synth.c_host.annotations import write_merge, write_split
from openinfer_synth_c.elements import Bound
from openinfer_synth_c.integers import declare_integers
from openinfer_synth_c.kernel_functions import Parameter
from openinfer_synth_c.loop_programs.addresses import counter, index_text
from openinfer_synth_c.loop_programs.rests import followed, relations
from openinfer_synth_c.operands import Binder
from openinfer_synth_c.view_bounds import followed_lengths, view_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from openinfer.affine import Var
    from openinfer.loops import Kernel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Argument, LoopProgramStep, Operand, Step
    from openinfer_synth_c.code import Code
    from openinfer_synth_c.kernel_functions import KernelFunction, KernelFunctions
    from openinfer_synth_c.names import Names


def results_of(step: ComputeStep | LoopProgramStep) -> tuple[int, ...]:
    """Return the values that a step writes: its outputs, then its temporaries."""
    return (*step.outputs, *step.temporaries) if isinstance(step, ComputeStep) else step.outputs


def has_vector_types(plan: ExecutionPlan) -> bool:
    """Return whether vectors have the types of GCC and Clang: where the compiler of the device has them."""
    return plan.arch is not None and plan.arch.compiler.has_vector_types


def write_call(
    code: Code, names: Names, plan: ExecutionPlan, step: ComputeStep | LoopProgramStep, functions: KernelFunctions
) -> None:
    """Append the call of a step's function; values without elements are passed unchanged."""
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
            is_in_words=_is_in_words(plan, operand),
        )
        for number, (name, operand) in enumerate(given.items())
    )
    function = functions.of(kernel, parameters)
    counts = step.arguments if isinstance(step, ComputeStep) else ()
    arguments = [given[parameter.buffer.name] for parameter in function.parameters]
    _test_entries(code, names, plan, [operand for operand in step.inputs if operand not in arguments])
    views = view_bounds(plan, step, names.moving_views)
    is_plain = not function.has_status and not counts and not views
    if is_plain and all(isinstance(argument, ValueRef) for argument in arguments):
        _write(code, Binder(code, names, plan), function, arguments, names)
    else:
        with code.braces():
            parameters = kernel.parameters if counts else ()
            _sizes(code, names, parameters, counts)
            with _where_any(code, step):
                lengths = (*(followed(kernel) if counts else ()), *followed_lengths(step, views))
                split_names = list(dict.fromkeys(map(counter, lengths)))
                write_split(code, split_names)
                if counts:
                    _relate(code, kernel)
                for view in views:
                    code.refuse(f"{names.register(view.register)} + {index_text(view.span)} > {view.room}")
                _write(
                    code, Binder(code, names, plan), function, arguments, names, [counter(var) for var in parameters]
                )
                write_merge(code, split_names)
    for value in results_of(step):
        type_ = names.type_of_value(value)
        if type_.dtype.is_packed and type_.count * type_.dtype.bits % 8:
            Bound(names.value(value), type_, code).clear_tail()


def write_tests(code: Code, names: Names, plan: ExecutionPlan, step: Step) -> None:
    """Append the tests of a step that has no element to compute: it fails like any other where indices are wrong."""
    _test_entries(code, names, plan, operands(step))
    if isinstance(step, ComputeStep) and step.arguments:
        with code.braces():
            _sizes(code, names, step.computation.parameters, step.arguments)


def _test_entries(code: Code, names: Names, plan: ExecutionPlan, unread: Sequence[Operand]) -> None:
    """Append the tests that entries of tables exist, which nothing reads."""
    entries = dict.fromkeys(operand for operand in unread if isinstance(operand, TableRef) and operand.checked)
    if not entries:
        return
    with code.braces():
        binder = Binder(code, names, plan)
        for number, entry in enumerate(entries):
            code.line(f"(void){binder.input(entry, f'x{number}').variable};")


def _sizes(code: Code, names: Names, parameters: Sequence[Var], arguments: Sequence[Argument]) -> None:
    """Append the values of parameters and their tests."""
    given = {counter(var): argument for var, argument in zip(parameters, arguments, strict=True)}
    declare_integers(code, names, {name: argument.value for name, argument in given.items()}, flag="overflow")
    for name, argument in given.items():
        code.refuse(f"{name} < {argument.low} || {name} > {argument.high}")


def _relate(code: Code, kernel: Kernel) -> None:
    """Append the tests of parameters whose bounds depend on others.

    The steps that found the values have tested the same: it is said again here, where analysers know no relation.
    """
    for var in kernel.parameters:
        if isinstance(var.extent, Index):
            code.refuse(f"{counter(var)} >= {index_text(var.extent)}")
    for condition, length in relations(kernel).items():
        less = Index(tuple((atoms, -factor) for atoms, factor in condition.index.terms if factor < 0))
        more = condition.index + less
        code.refuse(f"{counter(length)} > 0 && {index_text(more)} < {index_text(less)}")


def _where_any(code: Code, step: ComputeStep | LoopProgramStep) -> AbstractContextManager[None]:
    """Put what is appended under the test of extents that may be below 0."""
    lengths = shared_lengths(step.computation) if isinstance(step, ComputeStep) else ()
    tests = [f"{index_text(length)} > 0" for length in lengths]
    return code.braces(f"if ({' && '.join(tests)})") if tests else nullcontext()


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
        code.line(f"const int32_t status = {call};")
        code.refuse("status != MODEL_OK", "status")
    else:
        code.line(f"{call};")


def _value(names: Names, argument: ValueRef, parameter: Parameter) -> str:
    """Return the address of a value. Bytes may be read or written as words, which the address is a multiple of."""
    text, dtype = names.value(argument.value), parameter.buffer.dtype
    if names.type_of(argument).dtype is dtype:
        return text
    const = "" if parameter.is_written else "const "
    return f"({const}{item_type(dtype)} *)({const}void *){text}"


def _is_in_words(plan: ExecutionPlan, operand: Operand) -> bool:
    """Whether an operand is bytes in the arena of a core that may not move words from other addresses."""
    if plan.arch is None or not plan.arch.machine.is_scalar or not isinstance(operand, ValueRef):
        return False
    value = plan.values[operand.value]
    is_bytes = value.type.dtype in (I8, U8)
    return is_bytes and isinstance(value.memory, ArenaMemory) and value.memory.offset % WORD_NBYTES == 0


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
