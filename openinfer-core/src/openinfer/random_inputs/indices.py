"""Which inputs of a call name places along a dim, as the operator's definition says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute.stage import Position, Read
from openinfer.expr.linear import linearise
from openinfer.ops.applying import scalar_expression
from openinfer.ops.computations import computation_of, stages_of
from openinfer.ops.schema import Elementwise
from openinfer.random_inputs.intervals import Interval, interval_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.compute.stage import Stage
    from openinfer.expr.linear import Program
    from openinfer.expr.tree import Expr
    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

_ANGLES = frozenset({"sin", "cos", "tan"})
"""Functions of `openinfer.expr.tree` whose results depend on the last digits of what a large argument is made of."""


@dataclass(frozen=True, slots=True)
class IndexInput:
    """An input whose elements name places.

    Attributes:
        position: of the input in the call.
        legal: the indices that a call accepts.
        extent: of the dim, or the least where the input indexes several.
    """

    position: int
    legal: Interval
    extent: int


def index_inputs(schema: OpSchema, call: OpCall) -> Iterator[IndexInput]:
    """Yield the inputs that a call looks places up with, or compares with places along an axis.

    Raises:
        OpenInferError: the definition does not go with these types.
    """
    if stages_of(schema) is None:
        return
    computation = computation_of(schema, call)
    positions = _positions(computation, call)
    for stage in computation.stages:
        for lookup in stage.lookups:
            numbers = linearise(lookup.value).inputs
            position, extent = _only_input(stage, numbers, positions), _extent(lookup.var)
            if position is not None and extent is not None and _is_index(lookup.value, numbers[0], extent):
                low = -extent if _value_at(lookup.value, numbers[0], -1) == extent - 1 else 0
                yield IndexInput(position, Interval(low, extent - 1), extent)
        yield from _compared_with_places(stage, positions)


def angle_inputs(schema: OpSchema, call: OpCall) -> Iterator[int]:
    """Yield the positions of inputs of which a call takes a sine, a cosine or a tangent.

    Of an operator that is defined by stages, these are the inputs of integers in a stage that takes one.

    Raises:
        OpenInferError: the definition does not go with these types.
    """
    if isinstance(schema.definition, Elementwise):
        program = linearise(scalar_expression(schema, call))
        yield from program.inputs if _takes_angles(program) else ()
    elif stages_of(schema) is not None:
        computation = computation_of(schema, call)
        positions = _positions(computation, call)
        for stage in computation.stages:
            if _takes_angles(linearise(stage.value)):
                integers = [element for element in stage.elements if element.dtype.is_integer]
                names = {element.tensor for element in integers if isinstance(element, Read)}
                yield from (positions[name] for name in sorted(names & positions.keys()))


def _takes_angles(program: Program) -> bool:
    return any(instruction.function in _ANGLES for instruction in program.instructions)


def _positions(computation: Computation, call: OpCall) -> dict[str, int]:
    """Return the positions of a call's inputs by the names of their tensors."""
    present = [position for position, kind in enumerate(call.inputs) if kind is not None]
    return dict(zip((tensor.name for tensor in computation.inputs), present, strict=True))


def _only_input(stage: Stage, numbers: Sequence[int], positions: Mapping[str, int]) -> int | None:
    """Return the position of the input that elements are read from; None where there are several, or other elements."""
    elements = [stage.elements[number] for number in numbers if number >= 0]
    names = {element.tensor if isinstance(element, Read) else "" for element in elements}
    return positions.get(names.pop()) if len(names) == 1 and len(elements) == len(numbers) == 1 else None


def _extent(var: Var) -> int | None:
    return var.extent.interval.high if isinstance(var.extent, Index) else var.extent


def _is_index(value: Expr, number: int, extent: int) -> bool:
    """Whether an element names the place that it counts from 0 on."""
    return extent > 0 and all(_value_at(value, number, place) == place for place in {0, extent - 1})


def _value_at(value: Expr, number: int, element: int) -> float | None:
    inputs: list[Interval | None] = [None] * number
    interval = interval_of(value, [*inputs, Interval(element, element)])
    return interval.low if interval is not None and interval.low == interval.high else None


def _compared_with_places(stage: Stage, positions: Mapping[str, int]) -> Iterator[IndexInput]:
    """Yield inputs of integers that are compared with places along an axis, as in `one_hot`."""
    read: list[frozenset[int]] = []
    for instruction in linearise(stage.value).instructions:
        operands = [read[number] for number in instruction.operands]
        own = frozenset({instruction.index}) if instruction.function == "input" else frozenset[int]()
        read.append(own.union(*operands))
        if instruction.function != "eq":
            continue
        for numbers, others in (operands, operands[::-1]):
            places = [stage.elements[number] for number in others if number >= 0]
            position = _only_input(stage, sorted(numbers), positions)
            if position is None or len(places) != 1 or not isinstance(places[0], Position):
                continue
            last = places[0].at.interval.high
            if last is not None:
                yield IndexInput(position, Interval(-last - 1, last), last + 1)
