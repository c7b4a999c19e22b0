"""Copies that only add or drop dimensions with one place: their readers read the image itself, in whatever layout.

Graphs of one-dimensional networks are full of them, since their convolutions are those of images with one column. A
copy would keep both sides in row-major order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.rewriting import with_bodies
from openinfer.plan.steps import ComputeStep, CopyStep, LoopStep, ValueRef
from openinfer.plan.values import NoMemory, PlanValue, Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.compute import Computation, Element, Stage
    from openinfer.plan.steps import Procedure, Step

IMAGE = 4
"""Dimensions of an image: batch, channels, rows, columns."""


def without_unit_copies(
    procedures: Sequence[Procedure], values: Sequence[PlanValue], wanted: int
) -> tuple[Procedure, ...]:
    """Return a program that computes with images where it copied them to values of other ranks, or from these.

    Args:
        wanted: values that are read when the program has ended, as bits.
    """
    steps = [step for procedure in procedures for step in walk(procedure.steps)]
    touches = Counter(value for step in steps for value in members(reads(step) | writes(step)))
    writers = Counter(value for step in steps for value in members(writes(step)))
    free = frozenset(
        value.number
        for value in values
        if isinstance(value.memory, NoMemory)
        and value.role is Role.TEMPORARY
        and writers[value.number] == 1
        and not wanted >> value.number & 1
    )

    def changed(body: Sequence[Step]) -> Sequence[Step]:
        made = list(body)
        for step in body:
            pair = _pair(step, values, free)
            if pair is not None:
                made = _without_copy(made, step, pair, touches)
        return made

    return with_bodies(procedures, changed)


@dataclass(frozen=True, slots=True)
class _Pair:
    """An image and a value with its elements; the copy that is left out goes from one to the other."""

    image: PlanValue
    other: PlanValue


def _pair(step: Step, values: Sequence[PlanValue], free: frozenset[int]) -> _Pair | None:
    if not isinstance(step, CopyStep) or step.count is not None or not isinstance(step.source, ValueRef):
        return None
    both = (values[step.source.value], values[step.output])
    shapes = [value.type.shape for value in both]
    places = [[extent for extent in shape if extent != 1] for shape in shapes]
    if not {value.number for value in both} <= free or places[0] != places[1]:
        return None
    if both[0].type.dtype is not both[1].type.dtype or sum(len(shape) == IMAGE for shape in shapes) != 1:
        return None
    return _Pair(*both) if len(shapes[0]) == IMAGE else _Pair(*both[::-1])


def _without_copy(body: list[Step], copy: Step, pair: _Pair, touches: Mapping[int, int]) -> list[Step]:
    """Return a body without a copy, or as it was: something but computations after it touches what it copies."""
    at = body.index(copy)
    numbers = {pair.image.number, pair.other.number}
    made: list[Step] = []
    left = {number: touches[number] for number in numbers}
    (source, result) = (numbers & set(members(reads(copy)))).pop(), (numbers & set(members(writes(copy)))).pop()
    begun = False
    for position, step in enumerate(body):
        inner = list(walk([step])) if isinstance(step, LoopStep) else [step]
        for part in inner:
            used = set(members(reads(part) | writes(part))) & numbers
            for number in used:
                left[number] -= 1
            if not used or part is copy:
                continue
            if not isinstance(part, ComputeStep) or not _is_plain(part, pair):
                return body
            begun = begun or bool(writes(part) >> source & 1)
            # In the next iteration of a loop around them, earlier steps would read what this one leaves.
            if not begun or (result in used and position < at):
                return body
        if step is not copy:
            made.append(_rewritten(step, pair))
    return made if begun and not any(left.values()) else body


def _is_plain(step: ComputeStep, pair: _Pair) -> bool:
    """Whether a step reads and writes a value by all of its dimensions, in places that certainly are inside."""
    names = _names(step, pair.other.number)
    if step.arguments or step.temporaries or step.arrangement.fusion or len(names) > 1:
        return False
    if not names:
        return True
    (name,) = names
    shape = step.computation.tensor(name).shape
    if tuple(extent.constant for extent in shape) != pair.other.type.shape:
        return False
    units = [dim for dim, extent in enumerate(pair.other.type.shape) if extent == 1]
    return all(
        at[dim].is_within(0, Index.of(1))
        for stage in step.computation.stages
        for at in _places(stage, name)
        for dim in units
    )


def _places(stage: Stage, name: str) -> list[tuple[Index, ...]]:
    """Return where a stage reads and writes a tensor."""
    places = [element.at for element in stage.elements if isinstance(element, Read) and element.tensor == name]
    return [*places, *([stage.at] if stage.tensor == name else [])]


def _names(step: ComputeStep, value: int) -> list[str]:
    """Return the names of the tensors that a value is."""
    operands = (*step.inputs, *map(ValueRef, step.outputs))
    tensors = (*step.computation.inputs, *step.computation.outputs)
    return [t.name for t, operand in zip(tensors, operands, strict=True) if operand == ValueRef(value)]


def _rewritten(step: Step, pair: _Pair) -> Step:
    """Return a step with the image in place of the other value."""
    if isinstance(step, LoopStep):
        return replace(step, body=tuple(_rewritten(inner, pair) for inner in step.body))
    if not isinstance(step, ComputeStep):
        return step
    names, image, other = _names(step, pair.other.number), pair.image.number, pair.other.number
    if not names:
        return step
    (name,) = names
    return replace(
        step,
        computation=_of_image(step.computation, name, pair),
        inputs=tuple(ValueRef(image) if operand == ValueRef(other) else operand for operand in step.inputs),
        outputs=tuple(image if output == other else output for output in step.outputs),
    )


def _of_image(computation: Computation, name: str, pair: _Pair) -> Computation:
    shape = tuple(map(Index.of, pair.image.type.shape))
    dims = [dim for dim, extent in enumerate(pair.other.type.shape) if extent != 1]

    def moved(at: tuple[Index, ...]) -> tuple[Index, ...]:
        places = iter(dims)
        return tuple(Index() if extent == 1 else at[next(places)] for extent in pair.image.type.shape)

    def element(read: Element) -> Element:
        return replace(read, at=moved(read.at)) if isinstance(read, Read) and read.tensor == name else read

    def stage(old: Stage) -> Stage:
        return replace(
            old,
            elements=tuple(map(element, old.elements)),
            at=moved(old.at) if old.tensor == name else old.at,
        )

    return replace(
        computation,
        inputs=tuple(replace(t, shape=shape) if t.name == name else t for t in computation.inputs),
        outputs=tuple(replace(t, shape=shape) if t.name == name else t for t in computation.outputs),
        stages=tuple(map(stage, computation.stages)),
    )
