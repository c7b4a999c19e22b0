"""Products with concatenated matrices: each part is read where it lies, and nothing is concatenated.

Attention of a decoder multiplies a query by the keys of the past with that of its token after them. A product that has
a row or column for each row of the whole is one for each part.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute import Read, Tensor
from openinfer.compute.substitution import moved
from openinfer.expr import tree
from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.layouts import slides
from openinfer.plan.rewriting import with_bodies
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.values import NoMemory, Role, ViewMemory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Computation, Element, Stage
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue

LEAST = 4096
"""Elements from which on a concatenation takes longer than what several products take more than one."""


def without_concatenations(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], wanted: int
) -> tuple[Procedure, ...]:
    """Return a program whose products read the parts of what it concatenated for them alone.

    Args:
        wanted: values that are read when the program has ended, as bits.
    """
    steps = [step for procedure in procedures for step in walk(procedure.steps)]
    writers = Counter(value for step in steps for value in members(writes(step)))
    readers = Counter(value for step in steps for value in members(reads(step)))

    def changed(body: Sequence[Step]) -> Sequence[Step]:
        made = list(body)
        for step in body:
            whole = _whole(step, values) if isinstance(step, ComputeStep) else None
            if whole is None or wanted >> whole.value & 1 or writers[whole.value] != 1:
                continue
            if _are_written_before(made, step, whole, writers):
                made = _in_parts(made, step, whole, readers[whole.value])
        return made

    return with_bodies(procedures, changed)


@dataclass(frozen=True, slots=True)
class _Part:
    """A value that is a part of another from ``start`` on, along one dimension."""

    operand: ValueRef
    start: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    """A value that is made of parts along dimension ``dim``."""

    value: int
    dim: int
    parts: tuple[_Part, ...]


def _whole(step: ComputeStep, values: Sequence[PlanValue]) -> _Whole | None:
    """Return what a step concatenates; None: it does something else, or the result is not only for steps after it."""
    computation = step.computation
    if step.arguments or step.temporaries or len(step.outputs) != 1 or len(computation.stages) < 2:
        return None
    value = values[step.outputs[0]]
    if not isinstance(value.memory, NoMemory) or value.role is not Role.TEMPORARY or value.type.count < LEAST:
        return None
    operands = dict(zip((tensor.name for tensor in computation.inputs), step.inputs, strict=True))
    parts: list[_Part] = []
    dims: set[int] = set()
    for stage in computation.stages:
        read = stage.elements[0] if len(stage.elements) == 1 else None
        if not isinstance(read, Read) or read.tensor not in operands or not _is_copy(stage, read):
            return None
        operand = operands[read.tensor]
        shape = tuple(extent.constant for extent in computation.tensor(read.tensor).shape)
        starts = [(at - axis).constant for at, axis in zip(stage.at, stage.axes, strict=True)]
        extents = tuple(axis.extent for axis in stage.axes)
        if not isinstance(operand, ValueRef) or extents != shape or any(start is None for start in starts):
            return None
        # What lies in a state changes where the state is written, before the products that would read it.
        if isinstance(values[operand.value].memory, ViewMemory):
            return None
        own = {dim for dim, size in enumerate(shape) if size != value.type.shape[dim] or starts[dim]}
        dims |= own
        extents_of_part = tuple(size for size in shape if size is not None)
        parts.append(_Part(operand, sum(start or 0 for start in starts), extents_of_part))
    if len(dims) != 1 or len({part.operand for part in parts}) != len(parts):
        return None
    (dim,) = dims
    parts.sort(key=lambda part: part.start)
    ends = [part.start + part.shape[dim] for part in parts]
    is_whole = [part.start for part in parts] == [0, *ends[:-1]] and ends[-1] == value.type.shape[dim]
    return _Whole(value.number, dim, tuple(parts)) if is_whole else None


def _is_copy(stage: Stage, read: Read) -> bool:
    """Return whether a stage stores elements as they are, from the places of its axes."""
    return (
        isinstance(stage.value, tree.Input)
        and stage.fold is None
        and not (stage.lookups or stage.checks or stage.is_sequential)
        and read.fill is None
        and read.at == tuple(map(Index.of, stage.axes))
        and len(stage.at) == len(stage.axes)
    )


def _are_written_before(body: Sequence[Step], step: Step, whole: _Whole, writers: Mapping[int, int]) -> bool:
    """Return whether parts have their elements before a step, and keep them after it."""
    before = Counter(value for other in body[: body.index(step)] for value in members(writes(other)))
    numbers = [part.operand.value for part in whole.parts]
    return all(writers[number] == 0 or writers[number] == before[number] == 1 for number in numbers)


def _in_parts(body: list[Step], step: Step, whole: _Whole, readers: int) -> list[Step]:
    """Return a body without a concatenation, or as it was: something but products after it reads the whole."""
    at, changed_steps = body.index(step), 0
    made: list[Step] = []
    for position, other in enumerate(body):
        if not reads(other) >> whole.value & 1:
            made += [] if position == at else [other]
            continue
        changed = _of_parts(other, whole) if isinstance(other, ComputeStep) and position > at else None
        if changed is None:
            return body
        made.append(changed)
        changed_steps += 1
    return made if changed_steps == readers else body


def _of_parts(step: ComputeStep, whole: _Whole) -> ComputeStep | None:
    """Return a step whose products read the parts; None: some stage reads the whole in another way."""
    computation, operand = step.computation, ValueRef(whole.value)
    names = [
        t.name for t, tensor_operand in zip(computation.inputs, step.inputs, strict=True) if tensor_operand == operand
    ]
    operands = {part.operand for part in whole.parts}
    if step.arguments or step.arrangement.fusion or len(names) != 1 or operands & set(step.inputs):
        return None
    if {part.operand.value for part in whole.parts} & {*step.outputs, *step.temporaries}:
        return None
    (name,) = names
    parts = [f"{name}_{number}" for number in range(len(whole.parts))]
    taken = {t.name for t in (*computation.inputs, *computation.outputs, *computation.temporaries)}
    stages: list[Stage] = []
    for stage in computation.stages:
        axis = _axis(stage, computation, name, whole)
        if name not in stage.tensors_read:
            stages.append(stage)
        elif axis is None:
            return None
        else:
            stages += (
                _of_part(stage, axis, name, made, part, whole.dim)
                for made, part in zip(parts, whole.parts, strict=True)
            )
    if taken & set(parts):
        return None
    dtype = computation.tensor(name).dtype
    kept = [pair for pair in zip(computation.inputs, step.inputs, strict=True) if pair[0].name != name]
    tensors = (
        Tensor(made, dtype, tuple(map(Index.of, part.shape))) for made, part in zip(parts, whole.parts, strict=True)
    )
    return replace(
        step,
        computation=replace(computation, inputs=(*(tensor for tensor, _ in kept), *tensors), stages=tuple(stages)),
        inputs=(*(tensor_operand for _, tensor_operand in kept), *(part.operand for part in whole.parts)),
    )


def _axis(stage: Stage, computation: Computation, name: str, whole: _Whole) -> Var | None:
    """Return the axis of results along which a product walks all parts; None: it walks them in another way."""
    if stage.fold is None or stage.fold.running or stage.lookups or stage.checks or stage.is_sequential:
        return None
    if slides(stage, computation.tensor(name)):
        return None
    walked = {
        element.at[whole.dim] for element in stage.elements if isinstance(element, Read) and element.tensor == name
    }
    plain = [
        axis
        for axis in stage.axes
        if walked == {Index.of(axis)} and axis.extent == sum(part.shape[whole.dim] for part in whole.parts)
    ]
    own = [e for e in stage.elements if isinstance(e, Read) and e.tensor == name]
    if len(plain) != 1 or any(read.fill is not None or read.guards for read in own):
        return None
    others = (index for read in own for dim, index in enumerate(read.at) if dim != whole.dim)
    return None if any(plain[0] in index.variables() for index in others) else plain[0]


def _of_part(stage: Stage, axis: Var, name: str, made: str, part: _Part, dim: int) -> Stage:
    """Return the stage for the places of an axis that a part has."""
    own = Var(axis.name, part.shape[dim])
    places = {axis: own + part.start}

    def element(read: Element) -> Element:
        if not isinstance(read, Read) or read.tensor != name:
            return moved(read, places)
        return replace(read, tensor=made, at=(*read.at[:dim], Index.of(own), *read.at[dim + 1 :]))

    return replace(
        stage,
        axes=tuple(own if other == axis else other for other in stage.axes),
        elements=tuple(map(element, stage.elements)),
        at=tuple(index.substituted(places) for index in stage.at),
    )
