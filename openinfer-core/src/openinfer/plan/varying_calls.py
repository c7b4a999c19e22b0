"""Operators on values whose shape is known at run time only, or with settings that are: computations with parameters.

An operator is planned at several constant sizes, and the resulting computations are generalised
(`openinfer.compute.parametric`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product as product_of
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute.builder import ComputationError
from openinfer.compute.lengths import shared_lengths, uncertain_lengths
from openinfer.compute.parametric import Family, ParametricError, UnevenError, trials
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpTypeError
from openinfer.plan.calls import CallLowering, Operation
from openinfer.plan.findings import at_node
from openinfer.plan.given_sizes import EVEN_HINT
from openinfer.plan.parameters import Parameter, inside, partitions, variable_of
from openinfer.plan.sizes import polynomial, product
from openinfer.plan.steps import Argument, ComputeStep, CopyStep, EqualStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from openinfer.ir.resolved import ResolvedOp, SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.plan.draft import Draft
    from openinfer.plan.parameters import Given
    from openinfer.plan.steps import IndexExpr, Operand, Step
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable


FIRST_LOCAL = 1 << 40
"""Numbers of values that exist at one size only."""


@dataclass(slots=True)
class Sample:
    """What is planned at some sizes: steps, and the values that they add."""

    outputs: tuple[TensorType, ...] = ()
    steps: list[Step] = field(default_factory=list["Step"])
    added: list[tuple[str, TensorType]] = field(default_factory=list["tuple[str, TensorType]"])

    @property
    def kind(self) -> tuple[object, ...]:
        """What is done, whatever the sizes; less is done where results have no elements."""
        return (tuple(kind.count > 0 for kind in self.outputs), *map(type, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class VaryingCall:
    """An operator with sizes of run time.

    Attributes:
        op: as resolved; settings in ``settings`` are by the sizes of a trial.
        given: extents of its inputs.
    """

    op: ResolvedOp
    inputs: tuple[Operand | None, ...]
    given: Given
    settings: Callable[[Mapping[str, int]], Mapping[str, SettingValue]]
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A call with parameters.

    Attributes:
        equal: sizes that have to be equal.
    """

    family: Family
    samples: tuple[Sample, ...]
    parameters: tuple[Parameter, ...]
    equal: tuple[tuple[IndexExpr, IndexExpr], ...]

    @property
    def shapes(self) -> list[tuple[Index, ...]]:
        first = self.samples[0].outputs
        return [
            tuple(
                self.family.number([s.outputs[i].shape[axis] for s in self.samples])
                for axis in range(len(first[i].shape))
            )
            for i in range(len(first))
        ]

    def largest(self, extent: Index) -> int:
        """Return the largest value of an extent, which is linear in each parameter."""
        return max(self._at_corners(extent))

    def may_be_negative(self, extent: Index) -> bool:
        """Whether an extent may be below 0 at some values of parameters: then there are no elements."""
        return min(self._at_corners(extent)) < 0

    def _at_corners(self, extent: Index) -> list[int]:
        corners = product_of(*({p.low, p.high} for p in self.parameters))
        names = [p.name for p in self.parameters]
        return [extent.evaluate(dict(zip(names, corner, strict=True))) for corner in corners]

    def least(self, parameter: Parameter, lengths: Iterable[Index]) -> int:
        """Return the least value of a parameter at which some lengths are not below 0 where the others are least."""
        others = {p.name: p.low for p in self.parameters}
        legal = (
            value
            for value in range(parameter.low, parameter.high)
            if all(length.evaluate({**others, parameter.name: value}) >= 0 for length in self._with(parameter, lengths))
        )
        return next(legal, parameter.high)

    @staticmethod
    def _with(parameter: Parameter, lengths: Iterable[Index]) -> list[Index]:
        return [length for length in lengths if parameter.name in {var.name for var in length.variables()}]

    @property
    def rooms(self) -> list[tuple[int, ...]]:
        """The largest shapes of the outputs."""
        return [tuple(map(self.largest, shape)) for shape in self.shapes]

    @property
    def values(self) -> dict[str, IndexExpr]:
        return {p.name: p.value for p in self.parameters}


class VaryingLowering:
    """Plans calls with parameters."""

    def __init__(self, environment: Environment, table: KernelTable, draft: Draft) -> None:
        self._environment = environment
        self._table = table
        self._draft = draft

    def planned(self, call: VaryingCall, at: Operation, hint: str | None = None) -> Planned:
        """Return what a call does as far as shapes go.

        Args:
            hint: what to write instead where no size is divided.

        Raises:
            SynthesisError: ``unsupported``: it has no form for all sizes.
        """
        try:
            return self._sampled(call, call.parameters, (), at)
        except (OpTypeError, ParametricError) as error:
            for parts in partitions(tuple(p for p in call.parameters if p.is_extent)):
                found = self._with_equal(call, parts, at)
                if found is not None:
                    return found
            names = ", ".join(p.name for p in call.parameters)
            message = f"{call.op.op} has no form for every size that is known at run time only ({names}): {error}"
            hint = EVEN_HINT if isinstance(error, UnevenError) and self._draft.given is not None else hint
            raise at_node("unsupported", message, at.origin.block, at.node, hint=hint) from error

    def _with_equal(self, call: VaryingCall, parts: Sequence[tuple[Parameter, ...]], at: Operation) -> Planned | None:
        """Return what a call does where the extents in each part are equal; None: it has no form for all sizes."""
        settings = tuple(p for p in call.parameters if not p.is_extent)
        merged_away = {other.name for part in parts for other in part[1:]}
        if any(p.extent is not None and merged_away & {var.name for var in p.extent.variables()} for p in settings):
            return None
        left = (*(part[0] for part in parts), *settings)
        equal = tuple((part[0].value, other.value) for part in parts for other in part[1:])
        merged = _with_equal(call, parts)
        try:
            self._call(merged, trials({p.name: p.tried for p in left})[0])
            return self._sampled(merged, left, equal, at)
        except (OpTypeError, ParametricError):
            return None

    def _sampled(
        self,
        call: VaryingCall,
        parameters: tuple[Parameter, ...],
        equal: tuple[tuple[IndexExpr, IndexExpr], ...],
        at: Operation,
    ) -> Planned:
        sizes = trials({p.name: p.tried for p in parameters})
        variables = {p.name: variable_of(p) for p in parameters}
        samples = tuple(self._sample(call, each, at) for each in sizes)
        planned = Planned(family=Family(variables, sizes), samples=samples, parameters=parameters, equal=equal)
        shapes, least = planned.shapes, {p.name: p.low for p in parameters}
        for parameter in parameters:
            for value in parameter.checked:
                trial = inside({**sizes[0], parameter.name: value}, parameters)
                try:
                    expected = [kind.shape for kind in self._call(call, trial).outputs]
                except OpTypeError:
                    if not parameter.is_extent:
                        raise
                    least[parameter.name] += value == least[parameter.name]
                    continue
                if [tuple(max(extent.evaluate(trial), 0) for extent in shape) for shape in shapes] != expected:
                    raise ParametricError(f"its result at {value} has another shape than {parameter.name} suggests")
        return replace(planned, parameters=tuple(replace(p, low=least[p.name]) for p in parameters))

    def refused_place(self, call: VaryingCall) -> str | None:
        """Return the setting with an integer that some small or large extents make illegal; None: there is none."""
        first = {p.name: p.tried[0] for p in call.parameters}
        for parameter in call.parameters:
            for value in parameter.checked:
                sizes = {**first, parameter.name: value}
                try:
                    self._call(call, sizes)
                except OpTypeError as error:
                    setting = next(iter(error.settings), "")
                    return setting if type(call.settings(sizes).get(setting)) is int else None
        return None

    def has_form(self, call: VaryingCall, at: Operation) -> bool:
        """Whether what a call computes has one form at all sizes; shapes that have none are for `planned`."""
        try:
            planned = self._sampled(call, call.parameters, (), at)
        except (OpTypeError, ParametricError):
            return True
        try:
            for place in range(min(len(sample.steps) for sample in planned.samples)):
                steps = [sample.steps[place] for sample in planned.samples]
                computations = [step.computation for step in steps if isinstance(step, ComputeStep)]
                if len(computations) == len(steps):
                    planned.family.computation(computations)
        except (ParametricError, ComputationError):
            return False
        return True

    def form(self, call: VaryingCall, sizes: Mapping[str, int], at: Operation) -> Sample | None:
        """Return what a call does at some sizes; None where the operator refuses them."""
        try:
            return self._sample(call, sizes, at)
        except OpTypeError:
            return None

    def _call(self, call: VaryingCall, sizes: Mapping[str, int]) -> OpCall:
        types = tuple(
            None if kind is None or shape is None else TensorType(kind.dtype, _shape(shape, sizes))
            for kind, shape in zip(call.op.input_types, call.given, strict=True)
        )
        return call_of(self._environment.op(call.op.op), types, call.settings(sizes), call.op.output_types)

    def _sample(self, call: VaryingCall, sizes: Mapping[str, int], at: Operation) -> Sample:
        made = self._call(call, sizes)
        sample = Sample(outputs=made.outputs)

        def added(name: str, kind: TensorType) -> int:
            sample.added.append((name, kind))
            return FIRST_LOCAL + len(made.outputs) + len(sample.added) - 1

        def type_of(value: int) -> TensorType:
            return made.outputs[value - FIRST_LOCAL]

        lowering = CallLowering(self._environment, self._table, added, type_of)
        outputs = tuple(FIRST_LOCAL + n for n in range(len(made.outputs)))
        sample.steps += lowering.steps(made, call.inputs, outputs, at)
        return sample

    def steps(self, planned: Planned, outputs: Sequence[int], at: Operation) -> Iterator[Step]:
        """Yield the steps of a call whose results are some values.

        Raises:
            SynthesisError: ``unsupported``: what it computes has no form for all sizes.
        """
        first = planned.samples[0]
        numbers = {FIRST_LOCAL + place: value for place, value in enumerate(outputs)}
        try:
            for place in range(len(first.added)):
                shape = self._largest(planned, [s.added[place][1] for s in planned.samples])
                value = self._draft.intermediate(first.added[place][0], TensorType(first.added[place][1].dtype, shape))
                numbers[FIRST_LOCAL + len(outputs) + place] = value
            for left, right in planned.equal:
                yield EqualStep(origin=at.origin, left=left, right=right)
            if any(len(s.steps) != len(first.steps) for s in planned.samples):
                raise ParametricError("it takes other steps at other sizes")
            for place in range(len(first.steps)):
                yield self._step(planned, [s.steps[place] for s in planned.samples], numbers)
        except (ParametricError, ComputationError, IndexError) as error:
            names = ", ".join(p.name for p in planned.parameters)
            message = f"what {at.origin.statements[0].text} computes has no form for every {names}: {error}"
            raise at_node("unsupported", message, at.origin.block, at.node) from error

    def _largest(self, planned: Planned, types: Sequence[TensorType]) -> tuple[int, ...]:
        shape = [planned.family.number([t.shape[axis] for t in types]) for axis in range(len(types[0].shape))]
        return tuple(map(planned.largest, shape))

    def _step(self, planned: Planned, samples: Sequence[Step], numbers: Mapping[int, int]) -> Step:
        first = samples[0]
        if isinstance(first, ComputeStep):
            computations = [s.computation for s in samples if isinstance(s, ComputeStep)]
            if len(computations) < len(samples):
                raise ParametricError("it takes other steps at other sizes")
            made = planned.family.computation(computations)
            lengths = () if shared_lengths(made) else uncertain_lengths(made)
            return replace(
                first,
                computation=made,
                inputs=tuple(_renumbered(operand, numbers) for operand in first.inputs),
                outputs=tuple(numbers[value] for value in first.outputs),
                temporaries=tuple(numbers[value] for value in first.temporaries),
                arguments=tuple(Argument(p.value, planned.least(p, lengths), p.high) for p in planned.parameters),
            )
        if isinstance(first, CopyStep):
            shapes = [self._shape_of(s, sample) for s, sample in zip(samples, planned.samples, strict=True)]
            extents = [planned.family.number([s[axis] for s in shapes]) for axis in range(len(shapes[0]))]
            count = product(tuple(polynomial(extent, planned.values) for extent in extents))
            return replace(
                first,
                source=_renumbered(first.source, numbers),
                output=numbers[first.output],
                count=None if all(extent.constant is not None for extent in extents) else count,
            )
        raise ParametricError("it is carried out by a loop program of its own")

    def _shape_of(self, step: Step, sample: Sample) -> tuple[int, ...]:
        if not isinstance(step, CopyStep):
            raise ParametricError("it takes other steps at other sizes")
        place = step.output - FIRST_LOCAL
        if place < len(sample.outputs):
            return sample.outputs[place].shape
        return sample.added[place - len(sample.outputs)][1].shape


def _with_equal(call: VaryingCall, parts: Sequence[tuple[Parameter, ...]]) -> VaryingCall:
    """Return a call in which the extents of each part are the first of it."""
    first = {other.name: part[0].name for part in parts for other in part[1:]}
    same = {Var(name): Index.of(Var(kept)) for name, kept in first.items()}

    def settings(sizes: Mapping[str, int]) -> Mapping[str, SettingValue]:
        return call.settings({**sizes, **{name: sizes[kept] for name, kept in first.items()}})

    given = tuple(
        None if shape is None else tuple(n.substituted(same) if isinstance(n, Index) else n for n in shape)
        for shape in call.given
    )
    return replace(call, given=given, settings=settings)


def _shape(shape: tuple[int | Index, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(max(extent.evaluate(sizes), 0) if isinstance(extent, Index) else extent for extent in shape)


def _renumbered(operand: Operand, numbers: Mapping[int, int]) -> Operand:
    if isinstance(operand, ValueRef) and operand.value in numbers:
        return ValueRef(numbers[operand.value])
    return operand
