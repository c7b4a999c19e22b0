"""Plans for people: the schedule with what was fused, and the map of the arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.diagnostics import printable
from openinfer.plan.accesses import members, operands, walk, writes
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ComputeStep,
    CopyStep,
    FillStep,
    InputStep,
    KernelStep,
    LoopIndex,
    LoopProgramStep,
    LoopStep,
    ReturnStep,
    TableRef,
)
from openinfer.plan.values import ArenaMemory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import IndexExpr, Operand, Step


def report(plan: ExecutionPlan) -> str:
    """Return inputs, outputs, sizes and the schedule, one step a line; control characters are shown as escapes."""
    lines = [
        f"target   {plan.target}",
        *(f"input    {i.name}: {i.type}" for i in plan.inputs),
        *(f"output   {o.name}: {o.type}" for o in plan.outputs),
        f"weights  {plan.weights_nbytes} bytes in {len(plan.weights)} tensors",
        f"arena    {plan.arena_nbytes} bytes",
    ]
    for procedure in reversed(plan.procedures):
        lines += ["", f"block {procedure.name}"]
        lines += [f"{'  ' * depth}{text}" for depth, text in _listing(plan, procedure.steps, 1)]
    return "\n".join(printable(line) for line in lines)


def _listing(plan: ExecutionPlan, steps: Sequence[Step], depth: int) -> Iterator[tuple[int, str]]:
    for step in steps:
        yield depth, f"{step_text(plan, step)}{_places(step)}"
        if isinstance(step, LoopStep):
            yield from _listing(plan, step.body, depth + 1)


def _places(step: Step) -> str:
    lines = [str(s.line) for s in step.origin.statements if s.line is not None]
    notes = [f"line {', '.join(lines)}"] if lines else []
    if len(step.origin.statements) > 1:
        notes.append(f"{len(step.origin.statements)} fused")
    if isinstance(step, KernelStep | ComputeStep) and step.stored:
        notes.append(f"stored: {step.stored}")
    return f"  ({', '.join(notes)})" if notes else ""


def step_text(plan: ExecutionPlan, step: Step) -> str:
    """Return one line for a step, without its place and without the body of a loop."""
    match step:
        case LoopStep():
            return f"loop {step.name} ({step.index} in {_index(step.start)}..{_index(step.end)})"
        case CallStep(condition=None):
            return f"call {step.procedure}"
        case CallStep(condition=int() as condition):
            otherwise = "" if step.otherwise is None else f" else {step.otherwise}"
            return f"if {plan.values[condition].name} call {step.procedure}{otherwise}"
        case ReturnStep():
            return "return"
        case BarrierStep():
            return "barrier"
        case FillStep():
            return f"fill {step.value} >> {plan.values[step.output].name}"
        case InputStep():
            return f"input {plan.inputs[step.number].name} >> {plan.values[step.output].name}"
        case _:
            given = ", ".join(operand_text(plan, operand) for operand in operands(step))
            made = ", ".join(plan.values[value].name for value in members(writes(step)))
            kind = "view" if plan.is_view(step) else kind_of(step)
            return " ".join(filter(None, (kind, given, ">>", made)))


def kind_of(step: Step) -> str:
    """Return what a step does: its operators, else the kind of the step."""
    match step:
        case KernelStep():
            return step.call.op if step.epilogue is None else f"{step.call.op}+elementwise"
        case ComputeStep() | LoopProgramStep():
            return step.op
        case _:
            names = {
                CopyStep: "copy",
                FillStep: "fill",
                InputStep: "input",
                LoopStep: "loop",
                CallStep: "call",
                ReturnStep: "return",
                BarrierStep: "barrier",
            }
            return names[type(step)]


def operand_text(plan: ExecutionPlan, operand: Operand) -> str:
    """Return an operand as it is written in a program."""
    if isinstance(operand, LoopIndex):
        loops = [
            s for p in plan.procedures for s in walk(p.steps) if isinstance(s, LoopStep) and s.loop == operand.loop
        ]
        return loops[0].index
    if isinstance(operand, TableRef):
        return f"{plan.table(operand.table).name}[{', '.join(_index(i) for i in operand.indices)}]"
    return plan.values[operand.value].name


def _index(index: IndexExpr) -> str:
    return symbolic.text(index.expr)


def memory_map(plan: ExecutionPlan) -> str:
    """Return the places of all values in the arena, lowest first; halo and padding of a layout count."""
    placed = [(v.memory.offset, v) for v in plan.values if isinstance(v.memory, ArenaMemory)]
    rows = [
        (str(offset), str(offset + value.stored.nbytes), printable(value.name), str(value.type))
        for offset, value in sorted(placed, key=lambda pair: (pair[0], pair[1].number))
    ]
    if not rows:
        return f"arena of {plan.arena_nbytes} bytes"
    head = ("from", "to", "value", "type")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    lines = [f"arena of {plan.arena_nbytes} bytes"]
    for start, end, name, type_ in (head, *rows):
        lines.append(f"{start:>{widths[0]}}  {end:>{widths[1]}}  {name:<{widths[2]}}  {type_}".rstrip())
    return "\n".join(lines)
