"""Operator statements with sizes of run time: what they take, where their results go, and how large these are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute.in_place import overwritable
from openinfer.dims import product
from openinfer.ir.types import TensorType
from openinfer.plan.guards import SizedSteps
from openinfer.plan.setting_ranges import length_range
from openinfer.plan.sized_calls import SizedLowering
from openinfer.plan.steps import ComputeStep, CopyStep, EqualStep, PlaceStep, Register, SetStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.affine import Index, Interval
    from openinfer.ir.nodes import Node
    from openinfer.plan.calls import Operation
    from openinfer.plan.counted_results import CountedResults
    from openinfer.plan.draft import Draft
    from openinfer.plan.persistent import PersistentLowering
    from openinfer.plan.sized_calls import SizedCall
    from openinfer.plan.steps import Operand, Origin, Step
    from openinfer.plan.varying_settings import VaryingSettings
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable


class VaryingOps:
    """Lowers the operator statements of one program that depend on sizes of run time."""

    def __init__(
        self,
        environment: Environment,
        table: KernelTable,
        draft: Draft,
        persistent: PersistentLowering,
        counted: CountedResults,
    ) -> None:
        self._environment = environment
        self._table = table
        self._draft = draft
        self._persistent = persistent
        self._counted = counted

    def steps(
        self,
        bound: VaryingSettings,
        inputs: tuple[Operand | None, ...],
        outputs: list[int],
        at: Operation,
        loops: Mapping[int, Interval],
    ) -> Iterator[Step]:
        """Yield the steps of a statement.

        Args:
            outputs: values of the results that the statement names.
            loops: the values of loop indices.

        Raises:
            OpTypeError: the operator accepts no sizes.
            SizedError, NeedsNumberError: the statement has no form for all sizes.
        """
        lowering = SizedLowering(self._environment, self._table, self._draft, self._persistent, loops)
        planned = lowering.planned(bound, inputs, outputs, at)
        planned.declared.update(self._declared(planned, outputs))
        planned.demand_room()
        kinds = [TensorType(kind.dtype, shape) for kind, shape in zip(planned.outputs, planned.rooms, strict=True)]
        made = SizedSteps(self._draft, planned, at)
        yield from made.first()
        op = bound.op
        every = self._counted.written(op, outputs, kinds)
        yield from self._stored(planned, every[: len(outputs)], made, every, at)
        yield from self._counted.taken(op, outputs, every, at)

    def _stored(
        self,
        planned: SizedCall,
        outputs: Sequence[int],
        made: SizedSteps,
        every: Sequence[int],
        at: Operation,
    ) -> Iterator[Step]:
        """Yield the steps of a call with the tests that its results fit their variables, and the extents of these."""
        results: list[tuple[int, Index]] = []
        tests: list[EqualStep] = []
        lengths: list[PlaceStep] = []
        for number, value in enumerate(outputs):
            if self._is_fixed(value):
                yield from self._fits(value, planned, number, made, at)
                continue
            for step in self._result(value, planned, number, made, at):
                if isinstance(step, EqualStep):
                    tests.append(step)
                elif isinstance(step, PlaceStep):
                    lengths.append(step)
                else:
                    results.append(step)
        yield from tests
        yield from self._apart(planned, made.steps, every, at)
        yield from lengths
        if results:
            yield SetStep(origin=at.origin, values=tuple(results))

    def transfer(
        self, source: Operand, entry: tuple[int, ...] | None, output: int, node: Node, origin: Origin
    ) -> Iterator[Step]:
        """Yield the steps of a copy between values whose shape varies; unequal shapes are an error at run time.

        A variable that no declaration gives a shape takes that of the source.

        Args:
            entry: the shape of a source that is an entry of a table.
        """
        if source == ValueRef(output):
            return
        shape = self._persistent.extents_of(source) or entry or ()
        variable = self._draft.values[output].variable
        is_inferred = variable is not None and variable.inferred
        if is_inferred and isinstance(source, ValueRef):
            constants = tuple(extent if isinstance(extent, int) else None for extent in shape)
            known_extents = tuple(None if self._may_change(extent) else extent for extent in shape)
            room = self._draft.values[source.value].type.shape
            wanted = self._persistent.varies(output, constants, room, node, origin.block, known_extents)
        else:
            wanted = self._persistent.extents_of(ValueRef(output)) or ()
        taken: list[tuple[int, Index]] = []
        for extent, own in zip(wanted, shape, strict=True):
            if extent == own:
                continue
            if isinstance(extent, Register) and self._may_change(extent) and is_inferred:
                taken.append((extent.number, self._draft.size(own)))
            else:
                yield self._draft.equal(origin, "transfer", own, extent)
        yield CopyStep(origin=origin, source=source, output=output, count=product(map(self._draft.size, shape)))
        if taken:
            yield SetStep(origin=origin, values=tuple(taken))

    def _may_change(self, extent: int | Register) -> bool:
        """Whether steps of the program may change an extent."""
        return isinstance(extent, Register) and not self._draft.is_given(extent)

    def _is_fixed(self, value: int) -> bool:
        """Whether a variable has the shape of its declaration throughout: nothing gives it the shape of a cache."""
        variable = self._draft.values[value].variable
        if variable is None or variable.varying:
            return False
        return not (variable.inferred and self._draft.given is not None)

    def _fits(
        self, value: int, planned: SizedCall, number: int, made: SizedSteps, at: Operation
    ) -> Iterator[EqualStep]:
        """Yield the tests that a result has the shape of its variable."""
        shape = planned.shapes[number]
        self._persistent.need_rank(value, len(shape), at.node, at.origin.block)
        declared = self._persistent.extents_of(ValueRef(value)) or ()
        for extent, wanted in zip(shape, declared, strict=True):
            if self._known(extent) != wanted:
                yield made.fits(extent, wanted)

    def _declared(self, planned: SizedCall, outputs: Sequence[int]) -> Iterator[tuple[Index, int]]:
        """Yield the extents of results whose variables have the shape of their declaration, with the largest there."""
        for value, shape in zip(outputs, planned.shapes, strict=False):
            if self._is_fixed(value):
                yield from zip(shape, self._draft.values[value].type.shape, strict=False)

    def _known(self, extent: Index) -> int | Register | None:
        """Return an extent that is a number or depends on sizes of steps alone."""
        given_sizes = self._draft.given
        if extent.constant is not None or given_sizes is None:
            return extent.constant
        return given_sizes.extent(extent) if given_sizes.holds(extent) else None

    def _result(
        self, value: int, planned: SizedCall, number: int, steps: SizedSteps, at: Operation
    ) -> Iterator[tuple[int, Index] | EqualStep | PlaceStep]:
        """Yield the registers of a result's extents with their values; tests of those that no step changes.

        Lengths between two settings that are below 0 become 0.
        """
        shape, room = planned.shapes[number], planned.room(planned.shapes[number])
        constants = tuple(extent.constant for extent in shape)
        if not self._draft.varies(value) and constants == self._draft.values[value].type.shape:
            return
        known_extents = tuple(map(self._known, shape))
        extents = self._persistent.varies(value, constants, room, at.node, at.origin.block, known_extents)
        for extent, made in zip(extents, shape, strict=True):
            if not isinstance(extent, Register) or self._known(made) == extent:
                continue
            expr = planned.expression(made)
            if self._draft.is_given(extent):
                yield steps.fits(made, extent)
            elif planned.may_be_negative(made):
                clipped = length_range(planned.largest(made))
                yield PlaceStep(origin=at.origin, register=extent.number, value=expr, range=clipped)
            elif expr != self._draft.size(extent):
                yield extent.number, expr

    def _apart(
        self,
        planned: SizedCall,
        made: Callable[[Sequence[int]], Iterator[Step]],
        outputs: Sequence[int],
        at: Operation,
    ) -> Iterator[Step]:
        """Yield the steps of a call; a result that would be written over an input while that is read is copied."""
        steps = tuple(made(outputs))
        if all(map(_is_apart, steps)):
            yield from steps
            return
        private = [
            self._draft.intermediate(f"{at.name}.result", TensorType(kind.dtype, shape))
            for kind, shape in zip(planned.outputs, planned.rooms, strict=True)
        ]
        yield from made(private)
        for source, output, shape in zip(private, outputs, planned.shapes, strict=True):
            count = product(map(planned.expression, shape))
            most = None if all(extent.constant is not None for extent in shape) else count
            yield CopyStep(origin=at.origin, source=ValueRef(source), output=output, count=most)


def _is_apart(step: Step) -> bool:
    """Whether a step reads each element that it overwrites for the last time before it does."""
    if not isinstance(step, ComputeStep):
        return not isinstance(step, CopyStep) or step.source != ValueRef(step.output)
    shared = {value for value in step.outputs if ValueRef(value) in step.inputs}
    if not shared:
        return True
    free = overwritable(step.computation, step.computation.outputs[0].name) if len(step.outputs) == 1 else ()
    return all(
        tensor.name in free
        for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True)
        if isinstance(operand, ValueRef) and operand.value in shared
    )
