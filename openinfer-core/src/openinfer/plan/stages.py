"""What a plan looks like between the passes that make it, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import printable
from openinfer.layout import layout_text
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.report import schedule_lines
from openinfer.plan.values import NoMemory, PlanValue, Role, WeightTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.plan.arrangement import Arranged
    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import Procedure
    from openinfer.plan.values import PlanInput

Watch: TypeAlias = Callable[[str, "Callable[[], str]"], None]
"""Is called after each pass with its name and a function that returns the program as the pass leaves it."""


def ignored(name: str, text: Callable[[], str]) -> None:
    """Do nothing: nobody watches."""
    del name, text


def listing(draft: Draft, inputs: Sequence[PlanInput], procedures: Sequence[Procedure]) -> str:
    """Return the steps of a program whose values have no memory yet, as the report of a plan lists them."""
    nowhere = NoMemory()
    values = [
        PlanValue(number=number, name=value.name, type=value.type, role=Role.TEMPORARY, memory=nowhere)
        for number, value in enumerate(draft.values)
    ]
    plan = ExecutionPlan(
        target="",
        inputs=tuple(inputs),
        outputs=(),
        values=tuple(values),
        weights=(),
        tables=_tables(draft),
        procedures=tuple(procedures),
        arena_nbytes=0,
        registers=tuple(draft.registers),
    )
    return _lines(schedule_lines(plan))


def arranged_listing(draft: Draft, inputs: Sequence[PlanInput], procedures: Sequence[Procedure], made: Arranged) -> str:
    """Return the steps of a program whose values have no places in the arena yet, with the schedule of each stage."""
    plan = ExecutionPlan(
        target="",
        inputs=tuple(inputs),
        outputs=(),
        values=made.values,
        weights=made.weights,
        tables=made.tables,
        procedures=tuple(procedures),
        arena_nbytes=0,
        registers=tuple(draft.registers),
    )
    layouts = [f"layout   {v.name}: {layout_text(v.layout)}" for v in made.values if v.layout is not None]
    return _lines((*schedule_lines(plan, scheduled=True), *([""] if layouts else []), *layouts))


def schedule(plan: ExecutionPlan) -> str:
    """Return the steps of a whole plan."""
    return _lines(schedule_lines(plan))


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(map(printable, lines)).strip("\n")


def _tables(draft: Draft) -> tuple[WeightTable, ...]:
    return tuple(
        WeightTable(number=use.number, name=name, type=use.table.type, starts=(), extents=(), entries=())
        for name, use in draft.tables.items()
    )
