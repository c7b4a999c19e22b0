"""Steps that give variables their initial values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.resolved import Filled
from openinfer.plan.draft import DraftValue
from openinfer.plan.sizes import number
from openinfer.plan.steps import CopyStep, FillStep, ValueRef

if TYPE_CHECKING:
    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import Origin, Step


def initial_step(draft: Draft, value: int, origin: Origin) -> Step:
    """Return the step that gives the value of a variable its initial contents: the model's data, a scalar or zeros."""
    variable = draft.values[value].variable
    if variable is None or variable.initial is None:
        return FillStep(origin=origin, output=value, value=0)
    if isinstance(variable.initial, Filled):
        return FillStep(origin=origin, output=value, value=variable.initial.value)
    draft.values.append(DraftValue(f"{variable.name}.initial", variable.type, variable))
    count = None if draft.values[value].type == variable.type else number(variable.type.count)
    return CopyStep(origin=origin, source=ValueRef(len(draft.values) - 1), output=value, count=count)
