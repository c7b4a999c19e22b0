"""Steps that give variables their initial values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.ir.resolved import Filled
from openinfer.plan.draft import DraftValue
from openinfer.plan.regions import Axis, Region
from openinfer.plan.steps import CopyStep, FillStep, StoreStep, ValueRef

if TYPE_CHECKING:
    from openinfer.ir.resolved import ResolvedVar
    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import Origin, Step


def initial_steps_of(draft: Draft, value: int, origin: Origin) -> tuple[Step, ...]:
    """Return the steps that give a value its initial contents: the model's data, a scalar or zeros.

    Data are in front of the room of a matrix that grows, and the cells that it grows by hold zeros.
    """
    variable = draft.values[value].variable
    if variable is None or variable.initial is None:
        return (FillStep(origin=origin, output=value, value=0),)
    if isinstance(variable.initial, Filled):
        return (FillStep(origin=origin, output=value, value=variable.initial.value),)
    draft.values.append(DraftValue(f"{variable.name}.initial", variable.type, variable))
    source, room = ValueRef(len(draft.values) - 1), draft.values[value].type
    if variable.decl is not None and variable.decl.auto_dim and room != variable.type:
        store = StoreStep(
            origin=origin, source=source, target=value, region=_in_front(variable, room.shape), lengths=()
        )
        return (FillStep(origin=origin, output=value, value=0), store)
    count = None if room == variable.type else Index.of(variable.type.count)
    return (CopyStep(origin=origin, source=source, output=value, count=count),)


def _in_front(variable: ResolvedVar, room: tuple[int, ...]) -> Region:
    """Return the cells of a matrix with room to grow that it has from the start."""
    return Region(
        (),
        inner=tuple(
            Axis(Index.of(0), Index.of(extent), Index.of(most), math.prod(room[axis + 1 :]), most, is_bound=False)
            for axis, (extent, most) in enumerate(zip(variable.type.shape, room, strict=True))
        ),
    )
