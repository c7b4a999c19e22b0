"""Sizes of a segment that its own kernels count: its commands are recorded and submitted without a wait for them.

A register that takes such a size is known to the segment as an index over counts. The host program sets it after the
segment, for whatever comes then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.codegen import c_notation
from openinfer.plan.accesses import changed_registers, walk
from openinfer.plan.operands import symbols
from openinfer.plan.steps import ComputeStep, CopyStep, LoopStep, Register, SetStep, TableRef
from openinfer_backend_vulkan.glsl.counts import is_count, is_polynomial, register_of, registers_of
from openinfer_backend_vulkan.target.integers import integers_of
from openinfer_backend_vulkan.target.places import HOST, fixed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step
    from openinfer_backend_vulkan.target.host_names import HostNames
    from openinfer_backend_vulkan.target.places import Place

_SIZE = "size"


def counts_of(plan: ExecutionPlan, names: HostNames) -> Place:
    """Return the words that kernels write their counts to, one for each register."""
    return fixed(HOST, names.counts_start, 4 * len(plan.registers), "what kernels count")


def argument_sizes(plan: ExecutionPlan, step: ComputeStep, counted: Mapping[int, Index]) -> dict[str, Index] | None:
    """Return the arguments of a step that depend on counts, by name; None: the host has to know one."""
    sizes: dict[str, Index] = {}
    for var, argument in zip(step.computation.parameters, step.arguments, strict=True):
        if not registers_of(argument.value) & counted.keys():
            continue
        index = _index(argument.value, plan, counted)
        if index is None or not index.is_within(argument.low, argument.high + 1):
            return None
        sizes[var.name] = index
    return sizes


def set_sizes(plan: ExecutionPlan, step: SetStep, counted: Mapping[int, Index]) -> dict[int, Index] | None:
    """Return the registers that a step sets to sizes that depend on counts; None: the host has to know one."""
    sizes: dict[int, Index] = {}
    for register, value in step.values:
        index = _index(value, plan, counted) if registers_of(value) & counted.keys() else None
        if index is None or not index.is_within(0, 1 << 31) or plan.registers[register].is_kept:
            return None
        sizes[register] = index
    return sizes


def needs_count(plan: ExecutionPlan, step: Step, counted: Mapping[int, Index]) -> bool:
    """Whether the host has to know a size that the segment counts before a step, or the step sets its register."""
    if not counted:
        return False
    if isinstance(step, ComputeStep) and argument_sizes(plan, step, counted) is not None:
        entries = (operand.indices for operand in step.inputs if isinstance(operand, TableRef))
        return any(registers_of(index) & counted.keys() for indices in entries for index in indices)
    steps = [step, *walk(step.body)] if isinstance(step, LoopStep) else [step]
    return any(not counted.keys().isdisjoint(_registers(inner)) for inner in steps)


def _registers(step: Step) -> set[int]:
    """Return the registers that a step reads for certain, or sets; a copy takes the whole room, whatever its count."""
    read = () if isinstance(step, CopyStep) else integers_of(step)
    return {number for index in read for number in registers_of(index)}.union(changed_registers(step))


def _index(value: Index, plan: ExecutionPlan, counted: Mapping[int, Index]) -> Index | None:
    """Return an expression as an index over counts and sizes that the caller gives; None: it has something else."""
    indices: dict[Var, Index] = {}
    for symbol in symbols(value):
        register = plan.registers[symbol.operand.number] if isinstance(symbol.operand, Register) else None
        index = None if register is None else counted.get(register.number)
        if index is None and register is not None and register.size is not None:
            index = Index.of(Var(f"{_SIZE}{register.number}", register.most + 1))
        if index is None:
            return None
        indices[symbol] = index
    return value.substituted(indices) if is_polynomial(value) else None


def sizes_given(index: Index, names: HostNames) -> dict[str, str]:
    """Return the expressions of the host program for sizes of the caller in an index, by name."""
    others = (var for var in index.variables() if not is_count(var))
    return {var.name: names.register(int(var.name.removeprefix(_SIZE))) for var in others}


def settled(counted: Mapping[int, Index], plan: ExecutionPlan, names: HostNames) -> Iterator[str]:
    """Yield the statements that give registers their values when the device is done."""
    counts = f"((const int32_t *)(const void *)(model->host.mapped + {counts_of(plan, names).offset}))"

    def text(var: Var) -> str:
        if is_count(var):
            return f"(int64_t){counts}[{register_of(var)}]"
        return names.register(int(var.name.removeprefix(_SIZE)))

    for register, index in counted.items():
        yield f"{names.register(register)} = {c_notation(text).index(index)};"
