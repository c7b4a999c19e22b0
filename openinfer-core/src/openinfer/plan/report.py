"""Plans for people: the schedule with what was fused, and the map of the arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims, symbolic
from openinfer.diagnostics import counted, printable
from openinfer.plan.accesses import members, operands, walk, writes
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ClearStep,
    ComputeStep,
    CopyStep,
    CountStep,
    EntryStep,
    EqualStep,
    FillStep,
    InputStep,
    KernelStep,
    LoadStep,
    LoopIndex,
    LoopProgramStep,
    LoopStep,
    PlaceStep,
    Register,
    ReturnStep,
    SetStep,
    StoreStep,
    TableRef,
    ValueRef,
)
from openinfer.plan.values import ArenaMemory, StateMemory
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Index
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.regions import Region
    from openinfer.plan.steps import Operand, Step
    from openinfer.plan.values import PlanInput, PlanOutput, PlanState, PlanValue


def numbered_steps(plan: ExecutionPlan) -> Iterator[tuple[int, Step]]:
    """Yield all steps with the numbers by which reports call them: blocks from the first, loops before their bodies."""
    return enumerate((step for procedure in reversed(plan.procedures) for step in walk(procedure.steps)), 1)


def report(plan: ExecutionPlan) -> str:
    """Return inputs, outputs, sizes and the schedule, one step a line; control characters are shown as escapes."""
    lines = [
        f"target   {plan.target}",
        *(f"input    {i.name}: {i.type}{_extents(plan, i, 'in')}" for i in plan.inputs),
        *(f"output   {o.name}: {o.type}{_extents(plan, o, 'after')}" for o in plan.outputs),
        f"weights  {plan.weights_nbytes} bytes in {counted(len(plan.weights), 'tensor')}",
        *(f"computed {w.source}: {w.type} ({'+'.join(w.ops)})" for w in plan.weights if w.ops),
        f"arena    {plan.arena_nbytes} bytes",
        *(f"state    {s.name}: {s.type}{_in_memory(plan, s)}" for s in plan.states),
        *(f"size     {r.name}: up to {r.most}" for r in plan.registers if r.is_kept or r.size is not None),
    ]
    return "\n".join(map(printable, (*lines, *schedule_lines(plan))))


def _in_memory(plan: ExecutionPlan, state: PlanState) -> str:
    bank = plan.memory_of(state)
    return "" if bank is None else f" in {bank}"


def schedule_lines(plan: ExecutionPlan, *, scheduled: bool = False) -> Iterator[str]:
    """Yield the schedule, one step a line, with an empty line before each block.

    ``scheduled``: with lines for the loops of each stage.
    """
    for procedure in reversed(plan.procedures):
        yield from ("", f"block {procedure.name}")
        for depth, text in _listing(plan, procedure.steps, 1, scheduled=scheduled):
            yield f"{'  ' * depth}{text}"


def _listing(plan: ExecutionPlan, steps: Sequence[Step], depth: int, *, scheduled: bool) -> Iterator[tuple[int, str]]:
    for step in steps:
        yield depth, f"{step_text(plan, step)}{_places(plan, step)}"
        if scheduled and isinstance(step, ComputeStep):
            for stage, schedule in zip(step.computation.stages, step.arrangement.schedules, strict=False):
                yield depth + 1, f"{stage.tensor}: {schedule_text(schedule) or 'one place'}"
        if isinstance(step, LoopStep):
            yield from _listing(plan, step.body, depth + 1, scheduled=scheduled)


def lines_of(step: Step) -> list[int]:
    """Return the lines of the program that a step comes from, in written order."""
    return [statement.line for statement in step.origin.statements if statement.line is not None]


def place_of(step: Step) -> str:
    """Return how messages call a step: by its lines, else by its block."""
    lines = lines_of(step)
    return f"line {', '.join(map(str, lines))}" if lines else f"block {step.origin.block}"


def stored_reason(step: Step) -> str:
    """Return the reason why a step is not fused into another one, or an empty text."""
    return step.stored if isinstance(step, KernelStep | ComputeStep) else ""


def _places(plan: ExecutionPlan, step: Step) -> str:
    lines = lines_of(step)
    notes = [f"line {', '.join(map(str, lines))}"] if lines else []
    if len(step.origin.statements) > 1:
        notes.append(f"{len(step.origin.statements)} fused")
    if stored_reason(step):
        notes.append(f"stored: {stored_reason(step)}")
    over = _overwritten(plan, step)
    if over:
        notes.append(f"overwrites {', '.join(over)} while reading on")
    if isinstance(step, ComputeStep) and step.arrangement.backwards:
        notes.append("from the last place to the first")
    return f"  ({', '.join(notes)})" if notes else ""


def _overwritten(plan: ExecutionPlan, step: Step) -> list[str]:
    """Return the operands of a computation that lie in part where a result of it lies."""
    if not isinstance(step, ComputeStep):
        return []
    read = [plan.values[operand.value] for operand in step.inputs if isinstance(operand, ValueRef)]
    made = [plan.values[output] for output in step.outputs]
    return [value.name for value in read if any(_lie_across(value, other) for other in made)]


def _lie_across(one: PlanValue, other: PlanValue) -> bool:
    """Whether two values share some bytes of the arena, but are not one in place of the other."""
    if not isinstance(one.memory, ArenaMemory) or not isinstance(other.memory, ArenaMemory):
        return False
    if one.memory.bank != other.memory.bank:
        return False
    low, high = sorted([(one.memory.offset, one.stored.nbytes), (other.memory.offset, other.stored.nbytes)])
    return low != high and high[0] < low[0] + low[1]


def _extents(plan: ExecutionPlan, port: PlanInput | PlanOutput, when: str) -> str:
    """Return the extents of a port whose shape is known at run time only, to be put after its largest type."""
    if port.extents is None:
        return ""
    shown = [plan.registers[e.number].name if isinstance(e, Register) else str(e) for e in port.extents]
    return f" at most, [{', '.join(shown)}] {when} a step"


def step_text(plan: ExecutionPlan, step: Step) -> str:
    """Return one line for a step, without its place and without the body of a loop."""
    if isinstance(step, LoadStep | StoreStep | ClearStep | SetStep | PlaceStep | EqualStep | CountStep):
        return _state_text(plan, step)
    match step:
        case LoopStep():
            return f"loop {step.name} ({step.index} in {_index(step.start)}..{_index(step.end)})"
        case CallStep(condition=None):
            return f"{kind_of(step)} {step.procedure}"
        case CallStep(condition=int() as condition):
            otherwise = "" if step.otherwise is None else f" else {step.otherwise}"
            return f"if {plan.values[condition].name} call {step.procedure}{otherwise}"
        case ReturnStep():
            return "return"
        case BarrierStep():
            return " ".join(filter(None, (kind_of(step), ", ".join(step.joins))))
        case FillStep():
            return f"fill {step.value} >> {plan.values[step.output].name}"
        case EntryStep():
            return f"entry {operand_text(plan, step.entry)}"
        case InputStep():
            return f"input {plan.inputs[step.number].name} >> {plan.values[step.output].name}"
        case _:
            sources = ", ".join(operand_text(plan, operand) for operand in operands(step))
            made = ", ".join(plan.values[value].name for value in members(writes(step)))
            kind = "view" if plan.is_view(step) else kind_of(step)
            return " ".join(filter(None, (kind, sources, ">>", made)))


def _state_text(
    plan: ExecutionPlan, step: LoadStep | StoreStep | ClearStep | SetStep | PlaceStep | EqualStep | CountStep
) -> str:
    match step:
        case CountStep():
            return f"{kind_of(step)} {_index(step.amount)} {plan.values[step.target].name}"
        case LoadStep():
            taken = f"{plan.values[step.source].name}{_region(step.region)} >> {plan.values[step.output].name}"
            return f"{'view' if step.view is not None else 'read'} {taken}"
        case StoreStep():
            return f"write {operand_text(plan, step.source)} >> {plan.values[step.target].name}{_region(step.region)}"
        case ClearStep():
            return f"clear {plan.values[step.target].name}{_region(step.region)}"
        case SetStep():
            return f"sizes {', '.join(f'{plan.registers[r].name} = {_index(value)}' for r, value in step.values)}"
        case PlaceStep():
            return f"place {plan.registers[step.register].name} = {_index(step.value)}"
        case EqualStep():
            return f"equal sizes {_index(step.left)}, {_index(step.right)}"


def kind_of(step: Step) -> str:
    """Return what a step does: its operators, else the kind of the step."""
    match step:
        case KernelStep():
            return step.call.op if step.epilogue is None else f"{step.call.op}+elementwise"
        case ComputeStep() | LoopProgramStep():
            return step.op
        case CountStep(down=down):
            return "decrement" if down else "increment"
        case CallStep(on_thread=True):
            return "start"
        case BarrierStep(joins=(_, *_)):
            return "join"
        case _:
            names = {
                CopyStep: "copy",
                FillStep: "fill",
                InputStep: "input",
                LoopStep: "loop",
                CallStep: "call",
                ReturnStep: "return",
                BarrierStep: "barrier",
                LoadStep: "read",
                StoreStep: "write",
                ClearStep: "clear",
                SetStep: "sizes",
                PlaceStep: "place",
                EqualStep: "equal sizes",
                EntryStep: "entry",
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


def _region(region: Region) -> str:
    places = [
        _index(axis.start) if axis.end is None else f"{_index(axis.start)}..{_index(axis.end)}" for axis in region.axes
    ]
    return f"[{', '.join(places)}]"


def _index(index: Index) -> str:
    written = dims.expression(index, lambda _: False)
    return str(index) if written is None else symbolic.text(written)


def memory_map(plan: ExecutionPlan) -> str:
    """Return the places of all values in the arena, lowest first; halo and padding of a layout count.

    Where the device has memories, there is a list for each, and one of the states in it.
    """
    if not plan.banks:
        return _table(f"arena of {plan.arena_nbytes} bytes", _in_arena(plan, 0))
    parts: list[str] = []
    for number, bank in enumerate(plan.banks):
        head = f"{bank.name} ({bank.kind}): {bank.nbytes} of {bank.capacity} bytes"
        parts.append(_table(head, _in_arena(plan, number)))
        if bank.states_nbytes:
            parts.append(_table(f"persistent in {bank.name}: {bank.states_nbytes} bytes", _states_in(plan, number)))
    return "\n\n".join(parts)


def _in_arena(plan: ExecutionPlan, bank: int) -> list[tuple[int, PlanValue]]:
    places = [(value.memory, value) for value in plan.values if isinstance(value.memory, ArenaMemory)]
    return [(memory.offset, value) for memory, value in places if memory.bank == bank]


def _states_in(plan: ExecutionPlan, bank: int) -> list[tuple[int, PlanValue]]:
    values = [plan.values[state.value] for state in plan.states]
    places = [(value.memory, value) for value in values if isinstance(value.memory, StateMemory)]
    return [(memory.offset, value) for memory, value in places if memory.bank == bank]


def _table(title: str, placed: Sequence[tuple[int, PlanValue]]) -> str:
    rows = [
        (str(offset), str(offset + value.stored.nbytes), printable(value.name), str(value.type))
        for offset, value in sorted(placed, key=lambda pair: (pair[0], pair[1].number))
    ]
    if not rows:
        return title
    head = ("from", "to", "value", "type")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    lines = [title]
    for start, end, name, type_ in (head, *rows):
        lines.append(f"{start:>{widths[0]}}  {end:>{widths[1]}}  {name:<{widths[2]}}  {type_}".rstrip())
    return "\n".join(lines)
