"""What a plan looks like between the passes that make it, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import printable
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.report import schedule_lines
from openinfer.plan.values import NoMemory, PlanValue, Role, WeightTable

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    tables = [
        WeightTable(number=use.number, name=name, type=use.table.type, starts=(), extents=(), entries=())
        for name, use in draft.tables.items()
    ]
    plan = ExecutionPlan(
        target="",
        inputs=tuple(inputs),
        outputs=(),
        values=tuple(values),
        weights=(),
        tables=tuple(tables),
        procedures=tuple(procedures),
        arena_nbytes=0,
        registers=tuple(draft.registers),
    )
    return "\n".join(map(printable, schedule_lines(plan))).strip("\n")
