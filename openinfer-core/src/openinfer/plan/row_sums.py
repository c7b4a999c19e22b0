"""Sums of products of small integers along rows in memory, where no instruction of the target takes bytes as words.

What is computed of a sum is a stage of its own, which has vectors again: the results of a few pixels lie in a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.modular_sums import with_used_elements, without_sign
from openinfer.dtypes import I32, U32
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.ir.types import TensorType
from openinfer.loops import Bind
from openinfer.plan.step_edits import free_name, with_stage
from openinfer.plan.steps import Arrangement
from openinfer.schedule import Loop, along_rows, padded_factor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import ComputeStep
    from openinfer.schedule import Schedule


def with_sums_along_rows(step: ComputeStep, layouts: Mapping[str, Layout], data: PlanData) -> ComputeStep:
    """Return a step whose sum of products of small integers is without sign where both factors lie in rows.

    Args:
        layouts: where tensors lie, by name, but for constants that are packed for the schedule.
        data: of the plan; its values grow by the sums.
    """
    if step.arrangement.fusion or len(step.computation.stages) != 1:
        return step
    made = without_sign(step.computation.stages[0])
    if made is None:
        return step
    padded = padded_factor(made)
    schedule = along_rows(made, layouts, None if padded is None else padded[0])
    if schedule is None:
        return step
    if len(linearise(made.value).instructions) > 2:
        return _in_two(step, made, schedule, data)
    return with_stage(step, 0, made)


def _in_two(step: ComputeStep, stage: Stage, schedule: Schedule, data: PlanData) -> ComputeStep:
    """Return a step that computes the sums of the places that advance together, then what becomes of them."""
    computation, fold = step.computation, stage.fold
    if fold is None:
        raise TypeError("a sum of products is a fold")
    spread = next((loop.axis for loop in schedule.loops if loop.bind is Bind.UNROLL), None)
    own = [loop for loop in schedule.loops if loop.bind is Bind.SERIAL and loop.axis not in fold.axes]
    name = free_name(computation, "t")
    shape = tuple(extent_of(loop.axis) for loop in own)
    at = tuple(Index.of(loop.axis) for loop in own)
    sums = replace(stage, tensor=name, value=tree.cast(tree.Input(~0, U32), I32), at=at, elements=stage.elements)
    number = len(stage.elements)
    value = tree.substitute(step.computation.stages[0].value, {~0: tree.Input(number, I32)})
    rest = replace(stage, fold=None, value=value, elements=(*stage.elements, Read(name, at, I32)))
    stages = (with_used_elements(sums), with_used_elements(rest))
    made = replace(
        computation,
        stages=stages,
        temporaries=(*computation.temporaries, Tensor(name, I32, tuple(map(Index.of, shape)))),
    )
    value = data.temporary(f"{data.values[step.outputs[0]].name}.sums", TensorType(I32, shape))
    position = next((position for position, loop in enumerate(own) if loop.axis == spread), 0)
    # At a border tiles have one place: then all of an axis that is walked in steps is computed at a time.
    loops = () if spread is None else tuple(own[: position + (schedule.skip is None)])
    return replace(
        step,
        computation=made,
        temporaries=(*step.temporaries, value),
        arrangement=Arrangement(fusion=tuple(Loop(loop.axis, loop.step) for loop in loops)),
    )
