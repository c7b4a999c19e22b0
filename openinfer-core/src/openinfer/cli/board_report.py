"""What was measured on an emulated board, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.cli.terminal import table
from openinfer.estimate import estimate
from openinfer.plan.report import lines_of, numbered_steps, step_text

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.synth.target import BoardRun

LONGEST = 56
"""Characters of a step's text in a table."""


def board_text(measured: BoardRun) -> str:
    """Return what one step takes on a board: instructions, stack and code, and memories, planned and linked."""
    rows = [(use.name, f"{use.planned_nbytes:,}", f"{use.linked_nbytes:,}") for use in measured.memories]
    counts = f"{measured.instructions:,.0f} instructions per step, {measured.stack_nbytes:,} bytes of stack"
    ran = f"{counts}, {measured.code_nbytes:,} bytes of code ({measured.board}, {measured.compiler})"
    return f"{ran}\n{table(('memory', 'planned bytes', 'linked bytes'), rows)}"


def board_document(measured: BoardRun) -> dict[str, Any]:
    """Return what was measured as JSON."""
    return {
        "board": measured.board,
        "compiler": measured.compiler,
        "instructions": measured.instructions,
        "stack_nbytes": measured.stack_nbytes,
        "code_nbytes": measured.code_nbytes,
        "memories": [
            {"name": use.name, "planned_nbytes": use.planned_nbytes, "linked_nbytes": use.linked_nbytes}
            for use in measured.memories
        ],
    }


def steps_document(plan: ExecutionPlan, measured: BoardRun) -> list[dict[str, Any]]:
    """Return the instructions of every step that was counted, of all of its runs together, in the order of the plan."""
    costs = {step.number: step for step in estimate(plan).at(plan.given_sizes).steps}
    rows: list[dict[str, Any]] = []
    for number, step in numbered_steps(plan):
        if number not in measured.steps:
            continue
        cost = costs[number]
        macs = None if cost.macs is None or cost.times is None else int(cost.macs * cost.times)
        rows.append(
            {
                "number": number,
                "lines": lines_of(step),
                "step": step_text(plan, step),
                "times": cost.times,
                "multiply_accumulates": macs,
                "instructions": measured.steps[number],
            }
        )
    return rows


def steps_text(plan: ExecutionPlan, measured: BoardRun) -> str:
    """Return a table of the instructions of every step."""
    rows: list[tuple[str, ...]] = []
    for entry in steps_document(plan, measured):
        macs, count = entry["multiply_accumulates"], entry["instructions"]
        text = entry["step"] if len(entry["step"]) <= LONGEST else f"{entry['step'][: LONGEST - 3]}..."
        rows.append(
            (
                str(entry["number"]),
                _range(entry["lines"]),
                "" if entry["times"] in (1, None) else str(entry["times"]),
                f"{count:,.0f}",
                f"{100 * count / measured.instructions:.1f}",
                f"{macs:,}" if macs else "",
                f"{count / macs:.2f}" if macs else "",
                text,
            )
        )
    head = ("", "line", "times", "instructions", "%", "multiply-adds", "each", "step")
    return table(head, rows)


def _range(lines: list[int]) -> str:
    """Return the first and the last of some lines."""
    ends = sorted({min(lines), max(lines)}) if lines else []
    return "-".join(map(str, ends))
