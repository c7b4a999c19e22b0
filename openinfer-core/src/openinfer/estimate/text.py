"""The estimate of a plan for people: a table of its steps, then why each is as it is; at most 100 columns."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from openinfer.diagnostics import counted, printable
from openinfer.dims import is_size
from openinfer.estimate.advice import advice_lines
from openinfer.plan.accesses import walk
from openinfer.plan.report import lines_of, step_text, stored_reason
from openinfer.plan.schedules import common_loops_text
from openinfer.plan.steps import ComputeStep, LoopStep
from openinfer.schedule.text import schedule_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dims import Size
    from openinfer.estimate.steps import PlanEstimate, StageChoice, StepEstimate
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step

WIDTH = 100
_STEP = 1
_HEAD = ("", "step", "line", "times", "operations", "MACs", "read", "written", "live", "weights", "cycles")


def estimate_text(plan: ExecutionPlan, found: PlanEstimate) -> str:
    """Return the total cost of a plan, a table of its steps, and the schedules and reasons of each.

    Large numbers are rounded to three digits: k, M and G are powers of 1,000, Ki, Mi and Gi of 1,024. Where sizes
    differ from step to step numbers are those of the largest, and sums are shown as expressions of the sizes too.
    """
    largest = found.at(plan.given_sizes)
    lines = [*_summary(plan, found), "", *_table(plan, largest), "", *_details(plan, largest)]
    return "\n".join(printable(line).rstrip() for line in lines).rstrip()


def _summary(plan: ExecutionPlan, found: PlanEstimate) -> Iterator[str]:
    yield f"target    {plan.target}{_device(plan)}"
    yield from (f"input     {port.name}: {port.type}" for port in plan.inputs)
    yield from (f"output    {port.name}: {port.type}" for port in plan.outputs)
    yield f"weights   {plan.weights_nbytes:,} bytes in {counted(len(plan.weights), 'tensor')}"
    if plan.given_sizes:
        largest = ", ".join(f"{name} = {most}" for name, most in plan.given_sizes.items())
        yield f"sizes     {largest} at most: numbers are for these, expressions for those of a step"
    yield from _wrapped("arena     ", f"{plan.arena_nbytes:,} bytes{_used(found)}")
    for state in plan.states:
        bank = plan.memory_of(state)
        place = "" if bank is None else f" in {bank}"
        yield f"state     {state.name}: {state.type}, {state.type.nbytes:,} bytes{place}"
    for bank in plan.banks:
        yield f"memory    {bank.name} ({bank.kind}): {bank.nbytes:,} of {bank.capacity:,} bytes"
    if plan.banks:
        ports = [sum(port.type.nbytes for port in side) for side in (plan.inputs, plan.outputs)]
        yield f"caller    {ports[0]:,} bytes of inputs, {ports[1]:,} of outputs, in one of the memories"
    unknown = sum(1 for step in found.steps if step.operations is None)
    note = f"; those of {counted(unknown, 'step')} are not known" if unknown else ""
    has_macs = is_size(found.macs) or found.macs > 0
    macs = f" ({_amount(plan, found.macs, 'multiply-accumulates')})" if has_macs else ""
    operations = f"{_amount(plan, found.operations, 'operations')}{macs}{note}"
    yield from _wrapped("work      ", f"{operations}; {_amount(plan, found.moved_nbytes, 'bytes read and written')}")
    if is_size(found.cycles) or found.cycles:
        wait = 0 if plan.arch is None else plan.arch.flash_wait_states
        states = f"with {counted(wait, 'wait state')} of flash" if wait else "without wait states of flash"
        yield from _wrapped("cycles    ", _amount(plan, found.cycles, f"counted, {states}"))
    if any(step.times is None for step in found.steps):
        yield "          (what runs in loops whose bounds are known at run time counts once)"
    resting = sum(step.needs_guards for step in found.steps)
    note = f"; those of {counted(resting, 'step')} are in bounds by tests of sizes" if resting else ""
    yield from (line for advice in advice_lines(plan, found) for line in _wrapped("shrink    ", advice))
    yield f"accesses  {found.proved:,} proved in bounds, {found.guarded:,} guarded by a test{note}"


def _amount(plan: ExecutionPlan, amount: Size, unit: str) -> str:
    """Return the largest amount with its unit, and how it follows from sizes."""
    if not is_size(amount):
        return f"{amount:,} {unit}"
    return f"{amount.at(plan.given_sizes):,} {unit}, {amount} in a step"


def _used(estimate: PlanEstimate) -> str:
    """Return how much of the arena a step uses, where that follows from sizes."""
    live = estimate.live_nbytes
    return f", of which values take {live} in a step" if is_size(live) else ""


def _device(plan: ExecutionPlan) -> str:
    if plan.arch is None:
        return ""
    machine = plan.arch.machine
    registers = f"{machine.registers} registers of {machine.vector_nbytes} bytes"
    return f", device {plan.arch.name or 'without a name'}: {registers}{', fused multiply-add' * machine.fma}"


def _table(plan: ExecutionPlan, found: PlanEstimate) -> Iterator[str]:
    estimates = iter(found.steps)
    blocks: list[tuple[str, list[tuple[str, ...]]]] = []
    for procedure in reversed(plan.procedures):
        depths = _depths(procedure.steps)
        rows = [
            _row(plan, step, next(estimates), depth) for step, depth in zip(walk(procedure.steps), depths, strict=True)
        ]
        blocks.append((procedure.name, rows))
    rows = [row for _, found_rows in blocks for row in found_rows]
    shown = [column for column in range(len(_HEAD)) if column <= _STEP or any(row[column] for row in rows)]
    head = [_HEAD[column] for column in shown]
    widths = [max(len(printable(row[column])) for row in (_HEAD, *rows)) for column in shown]
    widths[_STEP] = min(widths[_STEP], WIDTH - sum(widths) + widths[_STEP] - 2 * (len(widths) - 1))
    yield _aligned(head, widths)
    for name, rows in blocks:
        yield f"block {name}"
        yield from (_aligned([row[column] for column in shown], widths) for row in rows)


def _depths(steps: Sequence[Step], depth: int = 0) -> list[int]:
    found: list[int] = []
    for step in steps:
        found.append(depth)
        if isinstance(step, LoopStep):
            found += _depths(step.body, depth + 1)
    return found


def _row(plan: ExecutionPlan, step: Step, found: StepEstimate, depth: int) -> tuple[str, ...]:
    text = "  " * depth + step_text(plan, step)
    return (
        str(found.number),
        text,
        _shortened(lines_of(step)),
        "?" if found.times is None else "" if found.times == 1 else str(found.times),
        "?" if found.operations is None else _number(found.operations),
        "?" if found.macs is None else _number(found.macs),
        _bytes(found.read_nbytes),
        _bytes(found.written_nbytes),
        _bytes(found.live_nbytes),
        _bytes(found.weight_nbytes),
        "" if found.cycles is None else _number(round(float(found.cycles))),
    )


def _shortened(lines: Sequence[int]) -> str:
    if len(lines) > 1:
        return f"{min(lines)}-{max(lines)}"
    return str(lines[0]) if lines else ""


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
    cells[_STEP] = _cut(printable(row[_STEP]), widths[_STEP]).ljust(widths[_STEP])
    return "  ".join(cells)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _number(value: Size) -> str:
    return _rounded(int(value), 1000, ("", "k", "M", "G", "T"))


def _bytes(value: Size) -> str:
    return _rounded(int(value), 1024, ("", "Ki", "Mi", "Gi", "Ti"))


def _rounded(value: int, base: int, units: Sequence[str]) -> str:
    if value < 100_000:
        return str(value) if value else ""
    power = 0
    while value >= base ** (power + 1) and power < len(units) - 1:
        power += 1
    return f"{value / base**power:.3g}{units[power]}"


def _details(plan: ExecutionPlan, found: PlanEstimate) -> Iterator[str]:
    estimates = iter(found.steps)
    for procedure in reversed(plan.procedures):
        for step in walk(procedure.steps):
            yield from _detail(plan, step, next(estimates))


def _detail(plan: ExecutionPlan, step: Step, found: StepEstimate) -> Iterator[str]:
    reason = stored_reason(step)
    statements = len(step.origin.statements)
    if not (found.choices or found.proved or found.guarded or found.needs_guards or reason or statements > 1):
        return
    width = max(2, len(str(found.number)))
    yield from _wrapped(f"{found.number:>{width}}  ", step_text(plan, step))
    pad = " " * (width + 2)
    if statements > 1:
        yield from _wrapped(f"{pad}fused     ", "; ".join(statement.text for statement in step.origin.statements))
    if reason:
        yield from _wrapped(f"{pad}stored    ", reason)
    if isinstance(step, ComputeStep) and step.arrangement.fusion:
        yield from _wrapped(f"{pad}under     ", common_loops_text(step.arrangement))
    for choice in found.choices:
        yield from _wrapped(f"{pad}{choice.tensor:<8}  ", schedule_text(choice.schedule) or "in row-major order")
        if choice.cycles is not None:
            yield from _wrapped(f"{pad}cycles    ", _cycles(choice))
    if found.needs_guards:
        yield f"{pad}accesses  in bounds by tests of sizes before the step"
    if found.proved or found.guarded:
        yield f"{pad}accesses  {found.proved} proved, {found.guarded} guarded"


def _cycles(choice: StageChoice) -> str:
    if choice.runner_up is None or choice.runner_up_cycles is None:
        return f"{choice.cycles:,.0f}; no other schedule fits"
    return f"{choice.cycles:,.0f}; next {choice.runner_up_cycles:,.0f}: {schedule_text(choice.runner_up)}"


def _wrapped(first: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
