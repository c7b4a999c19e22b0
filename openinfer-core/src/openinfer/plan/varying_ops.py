"""Operator statements with sizes of run time: what they take, where their results go, and how large these are."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from openinfer.compute.in_place import overwritable
from openinfer.compute.parametric import ParametricError
from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.plan.findings import at_node
from openinfer.plan.parameters import extent_parameters
from openinfer.plan.setting_ranges import length_range
from openinfer.plan.setting_search import RangeSearch
from openinfer.plan.sizes import number, polynomial, product
from openinfer.plan.steps import ComputeStep, CopyStep, EqualStep, PlaceStep, Register, SetStep, ValueRef
from openinfer.plan.varying_calls import VaryingCall, VaryingLowering
from openinfer.plan.varying_checks import differing_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.persistent import PersistentLowering
    from openinfer.plan.setting_search import PolynomialRange
    from openinfer.plan.steps import IndexExpr, Operand, Origin, Step
    from openinfer.plan.varying_calls import Planned
    from openinfer.plan.varying_settings import BoundSettings, VaryingSettings
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable

LEAST_NEAR = 8
"""Limits of sizes from which on the operators are planned at sizes near the limit, where they take no larger ones."""

SIDE_HINT = "give places that are on the same side of 0 at every size up to the limit"

APART_HINT = "write a `slice` or `narrow` along one axis for each part and each axis"
"""What to write where several places in one setting depend on sizes of run time."""


class VaryingOps:
    """Lowers the operator statements of one program that depend on sizes of run time."""

    def __init__(
        self, environment: Environment, table: KernelTable, draft: Draft, persistent: PersistentLowering
    ) -> None:
        self._environment = environment
        self._draft = draft
        self._persistent = persistent
        self._calls = VaryingLowering(environment, table, draft)

    def with_places(
        self, settings: VaryingSettings, inputs: tuple[Operand | None, ...], at: Operation
    ) -> VaryingSettings:
        """Return settings in which places such as the last row, ``T-1`` or -1, are tested when the program runs.

        These are places that not all sizes have; others follow from the sizes of steps.
        """
        if settings.unknown:
            return settings
        call = self._call(settings, inputs, at)
        if settings.sizes:
            if not self._calls.has_form(call, at):
                return settings.tested(settings.sized)
        else:
            place = self._calls.refused_place(self._far_call(settings, inputs))
            if place is not None and not self._calls.has_form(call, at):
                return settings.tested({place})
        return settings if self._is_planned(call, at) else self._clipped(settings, inputs, at) or settings

    def _is_planned(self, call: VaryingCall, at: Operation) -> bool:
        """Whether the results of a call have shapes that follow from its parameters, whatever these are."""
        try:
            return not self._calls.planned(call, at).equal
        except SynthesisError:
            return False

    def _clipped(
        self, settings: VaryingSettings, inputs: tuple[Operand | None, ...], at: Operation
    ) -> VaryingSettings | None:
        """Return settings in which ends of ranges are clipped when the program runs; None: that has no form either.

        The ends need not be in order of size, as ``U`` and ``T`` are not: then some follow from the sizes at which the
        operator is planned only, and others are clipped.
        """
        first: VaryingSettings | None = None
        ends = tuple(dict.fromkeys((*settings.lists, *sorted(settings.sized))))
        for names in (*((name,) for name in ends), *combinations(ends, 2)):
            tested = settings.tested(names)
            call = self._call(tested, inputs, at)
            found = RangeSearch(
                partial(self._calls.form, call, at=at), call.parameters, call.given, tuple(tested.unknown)
            )
            try:
                ranges = {name: found.range_of(name) for name in tested.unknown}
            except ParametricError:
                continue
            known = {name: each for name, each in ranges.items() if each is not None and not each.is_unlimited}
            if not known or len(known) < len(ranges):
                continue
            joint = found.joint(known)
            tried = found.tried(joint)
            if tried is None:
                continue
            made = [found.parameter(name, number(0), joint, tried) for name in joint]
            whole = replace(call, parameters=(*call.parameters, *made))
            if not self._is_planned(whole, at):
                continue
            if self._differing(call, tested, joint, whole, at) is None and self._calls.has_form(whole, at):
                return tested
            first = first or tested
        return first

    def _differing(
        self,
        call: VaryingCall,
        settings: VaryingSettings,
        ranges: Mapping[str, PolynomialRange],
        whole: VaryingCall,
        at: Operation,
    ) -> Mapping[str, int] | None:
        """Return sizes at which a call does something else than what is planned; None: there are none.

        Args:
            call: with parameters for extents alone.
            whole: with those of settings.
        """
        does = partial(self._calls.form, at=at)
        return differing_sizes(call, settings, ranges, self._calls.planned(whole, at), self._draft, does)

    def _far_call(self, settings: VaryingSettings, inputs: tuple[Operand | None, ...]) -> VaryingCall:
        """Return a call with parameters for extents alone, tried at sizes beyond their limits."""
        op = settings.op
        shapes = [
            None if operand is None or kind is None else self._persistent.extents_of(operand) or kind.shape
            for operand, kind in zip(inputs, op.input_types, strict=True)
        ]
        parameters, given = extent_parameters(self._draft, shapes, settings.sizes)
        return VaryingCall(op=op, inputs=inputs, given=given, settings=settings.at, parameters=parameters)

    def _call(self, settings: VaryingSettings, inputs: tuple[Operand | None, ...], at: Operation) -> VaryingCall:
        """Return a call with parameters for extents alone, tried at sizes that its operator accepts."""
        call = self._far_call(settings, inputs)
        parameters = call.parameters
        # Sizes far beyond their limit may be larger than what an input of fixed extents has room for.
        near = replace(call, parameters=tuple(replace(p, tried=(p.high, p.high - 1, p.high - 2)) for p in parameters))
        if any(p.high < LEAST_NEAR for p in parameters) or not self._is_taken(near, settings, at):
            return call
        # Ends of ranges that are clipped at every size up to the limit need not be at sizes far beyond it.
        is_far = self._is_taken(call, settings, at) and (bool(settings.unknown) or self._is_planned(call, at))
        return call if is_far or not (settings.unknown or self._is_planned(near, at)) else near

    def _is_taken(self, call: VaryingCall, settings: VaryingSettings, at: Operation) -> bool:
        """Whether an operator takes the first sizes that are tried, with 0 for settings of run time."""
        sizes = {**{p.name: p.tried[0] for p in call.parameters}, **dict.fromkeys(settings.unknown, 0)}
        return self._calls.form(call, sizes, at) is not None

    def steps(
        self, bound: BoundSettings, inputs: tuple[Operand | None, ...], outputs: list[int], at: Operation
    ) -> Iterator[Step]:
        """Yield the steps of a statement.

        Args:
            outputs: values of the results that the statement names.

        Raises:
            SynthesisError: ``unsupported``: what it computes has no form for all sizes.
        """
        op, named = bound.settings.op, len(outputs)
        call = self._call(bound.settings, inputs, at)
        form = partial(self._calls.form, call, at=at)
        made, places, ranges = bound.parameters(self._draft, form, call.parameters, call.given, at)
        yield from places
        hint = APART_HINT if bound.settings.most_numbers > 1 else None
        planned = self._calls.planned(replace(call, parameters=(*call.parameters, *made)), at, hint)
        self._check(call, bound.settings, ranges, planned, at)
        room = planned.rooms
        every = list(outputs)
        for place in range(named, len(room)):
            kind, name = planned.samples[0].outputs[place], f"{op.outputs[0]}.{op.op}.{place}"
            every.append(self._draft.intermediate(name, TensorType(kind.dtype, room[place])))
        results: list[tuple[int, IndexExpr]] = []
        tests: list[EqualStep] = []
        lengths: list[PlaceStep] = []
        for place, value in enumerate(outputs):
            if self._is_fixed(value):
                yield from self._fits(value, planned.shapes[place], planned.values, at)
                continue
            for found in self._result(value, planned, place, at):
                if isinstance(found, EqualStep):
                    tests.append(found)
                elif isinstance(found, PlaceStep):
                    lengths.append(found)
                else:
                    results.append(found)
        yield from tests
        yield from self._apart(planned, every, at)
        yield from lengths
        if results:
            yield SetStep(origin=at.origin, values=tuple(results))

    def _check(
        self,
        call: VaryingCall,
        settings: VaryingSettings,
        ranges: Mapping[str, PolynomialRange],
        planned: Planned,
        at: Operation,
    ) -> None:
        """Refuse a call that does something else at some sizes than what is planned."""
        does = partial(self._calls.form, at=at)
        sizes = differing_sizes(call, settings, ranges, planned, self._draft, does)
        if sizes is not None:
            shown = " and ".join(f"{name}={value}" for name, value in sizes.items())
            message = f"{call.op.op} has no form for every size that is known at run time only: it differs at {shown}"
            hint = APART_HINT if settings.most_numbers > 1 else SIDE_HINT
            raise at_node("unsupported", message, at.origin.block, at.node, hint=hint)

    def transfer(self, source: Operand, output: int, origin: Origin) -> Iterator[Step]:
        """Yield the steps of a copy between values whose shape varies; unequal shapes are an error at run time."""
        if source == ValueRef(output):
            return
        given = self._persistent.extents_of(source) or ()
        wanted = self._persistent.extents_of(ValueRef(output)) or ()
        sizes = tuple(self._draft.size(extent) for extent in given)
        for left, right in zip(sizes, (self._draft.size(extent) for extent in wanted), strict=True):
            if left != right:
                yield EqualStep(origin=origin, left=left, right=right)
        yield CopyStep(origin=origin, source=source, output=output, count=product(sizes))

    def _is_fixed(self, value: int) -> bool:
        """Whether a variable has the shape of its declaration throughout: nothing gives it the shape of a cache."""
        variable = self._draft.values[value].variable
        if variable is None or variable.varying:
            return False
        return not (variable.inferred and self._draft.given is not None)

    def _fits(
        self, value: int, shape: tuple[Index, ...], values: Mapping[str, IndexExpr], at: Operation
    ) -> Iterator[EqualStep]:
        """Yield the tests that a result has the shape of its variable."""
        self._persistent.need_rank(value, len(shape), at.node, at.origin.block)
        declared = self._persistent.extents_of(ValueRef(value)) or ()
        for extent, wanted in zip(shape, declared, strict=True):
            if self._known(extent) != wanted:
                yield EqualStep(origin=at.origin, left=polynomial(extent, values), right=self._draft.size(wanted))

    def _known(self, extent: Index) -> int | Register | None:
        """Return an extent that is a number or depends on sizes of steps alone."""
        given = self._draft.given
        if extent.constant is not None or given is None:
            return extent.constant
        names = {var.name for var in extent.variables()}
        return given.extent(extent) if names <= given.parameters else None

    def _result(
        self, value: int, planned: Planned, place: int, at: Operation
    ) -> Iterator[tuple[int, IndexExpr] | EqualStep | PlaceStep]:
        """Yield the registers of a result's extents with their values; tests of those that no step changes.

        Lengths between two settings that are below 0 become 0.
        """
        shape, values, room = planned.shapes[place], planned.values, planned.rooms[place]
        known = tuple(extent.constant for extent in shape)
        if value not in self._draft.extents and known == self._draft.values[value].type.shape:
            return
        given = tuple(map(self._known, shape))
        extents = self._persistent.varies(value, known, room, at.node, at.origin.block, given)
        for extent, made in zip(extents, shape, strict=True):
            if not isinstance(extent, Register) or self._known(made) == extent:
                continue
            expr = polynomial(made, values)
            if self._draft.is_given(extent):
                yield EqualStep(origin=at.origin, left=expr, right=self._draft.size(extent))
            elif planned.may_be_negative(made):
                clipped = length_range(planned.largest(made))
                yield PlaceStep(origin=at.origin, register=extent.number, value=expr, range=clipped)
            elif expr != self._draft.size(extent):
                yield extent.number, expr

    def _apart(self, planned: Planned, outputs: Sequence[int], at: Operation) -> Iterator[Step]:
        """Yield the steps of a call; a result that would be written over an input while that is read is copied."""
        steps = tuple(self._calls.steps(planned, outputs, at))
        if all(map(_is_apart, steps)):
            yield from steps
            return
        private = [
            self._draft.intermediate(f"{at.name}.result", TensorType(kind.dtype, shape))
            for kind, shape in zip(planned.samples[0].outputs, planned.rooms, strict=True)
        ]
        yield from self._calls.steps(planned, private, at)
        for source, output, shape in zip(private, outputs, planned.shapes, strict=True):
            count = product(tuple(polynomial(extent, planned.values) for extent in shape))
            known = None if all(extent.constant is not None for extent in shape) else count
            yield CopyStep(origin=at.origin, source=ValueRef(source), output=output, count=known)


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
