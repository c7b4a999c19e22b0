"""Operator statements with sizes of run time: the shape rule and the definition run once, on sizes.

Where a rule accepts different shapes in different ways, one of them is planned: the answers that tell it apart are its
guards, which are tested when the program runs (`openinfer.plan.guards`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeVar

from openinfer.affine import Index, Interval
from openinfer.compute.builder import ComputationError
from openinfer.dims import Condition, NeedsNumberError, Path, Relation
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import Compute, OpTypeError
from openinfer.ops.shapes import needed
from openinfer.plan.calls import CallLowering
from openinfer.plan.operands import has_wide_number
from openinfer.plan.sized_symbols import LARGEST, SizedSymbols
from openinfer.plan.steps import ValueRef

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.ops.calls import OpCall
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.persistent import PersistentLowering
    from openinfer.plan.steps import Operand, Step
    from openinfer.plan.varying_settings import VaryingSettings
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable

_Result = TypeVar("_Result")

_MOST_OF_NOTHING = 1 << 8
"""Largest extent of a result that never has an element."""

_MOST_ROOM = 1 << 16
_MOST_TIMES = 16
"""Elements for which a result has room that has those of an input in a shape that a step decides: every extent may be
as large as their number, and all of them together far larger, so that more would be memory that nothing uses."""

FIRST_LOCAL = 1 << 40
"""Numbers of values of a statement before they are values of the plan."""


class SizedError(ValueError):
    """A statement has no form for all sizes; the message says why, and the ``hint`` what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(slots=True)
class SizedCall:
    """A statement, planned once.

    Attributes:
        outputs: types of the results, over symbols.
        guards: what has to hold.
        steps: over values of the statement, numbered from `FIRST_LOCAL` on: results, then those that are ``added``.
        declared: the largest value of extents that results have to have, by their declarations or `demand_room`.
        most_elements: the largest number of elements of an input, all of which the one result has; None: it may have
            others.
    """

    op: str
    symbols: SizedSymbols
    outputs: tuple[TensorType, ...]
    guards: tuple[Condition, ...]
    steps: list[Step] = field(default_factory=list["Step"])
    added: list[tuple[str, TensorType]] = field(default_factory=list["tuple[str, TensorType]"])
    declared: dict[Index, int] = field(default_factory=dict["Index", int])
    most_elements: int | None = None

    @property
    def shapes(self) -> list[tuple[Index, ...]]:
        return [tuple(map(Index.of, type_.shape)) for type_ in self.outputs]

    @property
    def rooms(self) -> list[tuple[int, ...]]:
        """The largest shapes of the outputs."""
        return [tuple(map(self.largest, shape)) for shape in self.shapes]

    @property
    def temporaries(self) -> list[tuple[str, DType, tuple[Index, ...]]]:
        """The values that are added, by name."""
        return [(name, type_.dtype, tuple(map(Index.of, type_.shape))) for name, type_ in self.added]

    def expression(self, index: Index) -> Index:
        """Return an index over symbols as an expression of the plan.

        Raises:
            SizedError: it has none.
        """
        try:
            expression = self.symbols.expression(index)
        except ValueError as error:
            raise SizedError(str(error)) from error
        if has_wide_number(expression):
            raise SizedError(self.symbols.in_words(f"`{index}` has numbers of more than 64 bits"))
        return expression

    def largest(self, extent: Index) -> int:
        """Return the largest value of an extent.

        Raises:
            SizedError: it has none.
        """
        ends = (self.symbols.space.largest(extent), self.declared.get(extent))
        high = min((end for end in ends if end is not None), default=None)
        if high is None:
            raise self._endless(extent)
        return max(high, 0)

    def room(self, shape: Sequence[Index]) -> tuple[int, ...]:
        """Return the largest shape of a value that has room for it.

        Raises:
            SizedError: there is none.
        """
        room = tuple(map(self.largest, shape))
        endless = next((extent for extent, most in zip(shape, room, strict=True) if most >= LARGEST), None)
        if endless is not None:
            raise self._endless(endless)
        return room

    def demand_room(self) -> None:
        """Demand of a result that has the elements of an input that no extent is larger than their number can be.

        Only a result without elements may have larger ones: ``reshape(x, shape=[n, -1])`` of no elements has ``n`` rows
        of 0, for any ``n``.
        """
        if self.most_elements is None:
            return
        most = self.most_elements or _MOST_OF_NOTHING
        for extent in dict.fromkeys(self.shapes[0]):
            largest = self.symbols.space.largest(extent)
            if (largest is None or largest > most) and extent not in self.declared:
                self.guards += (Condition(Index.of(most) - extent, Relation.AT_LEAST),)
                self.declared[extent] = most
        room = prod(map(self.largest, self.shapes[0]))
        if room > max(_MOST_TIMES * most, _MOST_ROOM):
            message = f"each extent of the result may be {most:,}, for which it would need room for {room:,} elements"
            raise SizedError(message, "declare the result with its shape, or give all extents but one as numbers")

    def _endless(self, extent: Index) -> SizedError:
        message = self.symbols.in_words(f"`{extent}` has no largest value")
        return SizedError(message, "declare the result with its shape, or take the setting from a type of fewer bits")

    def may_be_negative(self, extent: Index) -> bool:
        """Whether an extent may be below 0."""
        return not self.symbols.space.is_never_negative(extent)


class SizedLowering:
    """Plans statements on sizes."""

    def __init__(
        self,
        environment: Environment,
        table: KernelTable,
        draft: Draft,
        persistent: PersistentLowering,
        loops: Mapping[int, Interval],
    ) -> None:
        self._environment = environment
        self._table = table
        self._draft = draft
        self._persistent = persistent
        self._loops = loops

    def planned(
        self, settings: VaryingSettings, inputs: Sequence[Operand | None], outputs: Sequence[int], at: Operation
    ) -> SizedCall:
        """Return what a statement does.

        Raises:
            OpTypeError: the operator accepts no sizes.
            SizedError: it has no form for all sizes.
            NeedsNumberError: the operator needs the number of a size.
        """
        symbols = SizedSymbols(self._draft, self._loops)
        try:
            return self._planned(symbols, settings, inputs, outputs, at)
        except (OpTypeError, SizedError, NeedsNumberError) as error:
            error.args = (symbols.in_words(str(error)),)
            if isinstance(error, OpTypeError) and error.predicate is not None:
                error.predicate = symbols.in_words(error.predicate)
            raise

    def _planned(
        self,
        symbols: SizedSymbols,
        settings: VaryingSettings,
        inputs: Sequence[Operand | None],
        outputs: Sequence[int],
        at: Operation,
    ) -> SizedCall:
        paths = self._ways(symbols, settings, inputs, outputs)
        call, guards = _planned_way(paths, symbols)
        for guard in guards:
            symbols.space.assume(guard)
        return self._defined(symbols, call, guards, inputs, at)

    def _ways(
        self, symbols: SizedSymbols, settings: VaryingSettings, inputs: Sequence[Operand | None], outputs: Sequence[int]
    ) -> list[Path[OpCall]]:
        op = settings.op
        shapes = [
            None
            if operand is None or kind is None
            else symbols.shape_of_operand(self._persistent.extents_of(operand) or kind.shape)
            for operand, kind in zip(inputs, op.input_types, strict=True)
        ]
        declared = [
            symbols.shape(self._persistent.extents_of(ValueRef(value)) or kind.shape)
            for value, kind in zip(outputs, op.output_types, strict=False)
        ]
        evaluated = symbols.settings(settings)
        schema = self._environment.op(op.op)
        types = [
            None if kind is None or shape is None else TensorType(kind.dtype, shape)
            for kind, shape in zip(op.input_types, shapes, strict=True)
        ]
        wanted = [
            TensorType(kind.dtype, shape or kind.shape) for kind, shape in zip(op.output_types, declared, strict=False)
        ]

        def rule() -> OpCall:
            call = call_of(schema, types, evaluated(), wanted)
            if symbols.space.choices:
                _check_ranks(call, op.output_types)
            return call

        return symbols.space.explore(rule)

    def _defined(
        self,
        symbols: SizedSymbols,
        call: OpCall,
        guards: tuple[Condition, ...],
        inputs: Sequence[Operand | None],
        at: Operation,
    ) -> SizedCall:
        space = symbols.space

        def definition() -> SizedCall:
            settled = call.substituted(space.solutions())
            planned = SizedCall(call.op, symbols, settled.outputs, guards)

            def added(name: str, type_: TensorType) -> int:
                planned.added.append((name, type_))
                return FIRST_LOCAL + len(settled.outputs) + len(planned.added) - 1

            lowering = CallLowering(
                self._environment, self._table, added, lambda value: settled.outputs[value - FIRST_LOCAL]
            )
            outputs = tuple(FIRST_LOCAL + number for number in range(len(settled.outputs)))
            planned.steps += lowering.steps(settled, inputs, outputs, at)
            return planned

        paths = space.explore(definition)
        for path in paths:
            if isinstance(path.error, ComputationError):
                raise SizedError(str(path.error)) from path.error
        planned, followed = _defined_way(paths, symbols)
        for guard in followed:
            space.assume(guard)
        planned.guards = (*guards, *followed)
        defined = self._environment.op(call.op).definition
        if isinstance(defined, Compute) and defined.in_order:
            planned.most_elements = space.largest(Index.of(needed(call.inputs).count))
        return planned


def _check_ranks(call: OpCall, declared: Sequence[TensorType]) -> None:
    """Refuse a way on which results have other numbers of dims than their variables.

    Raises:
        OpTypeError: one has.
    """
    for made, wanted in zip(call.outputs, declared, strict=False):
        if len(made.shape) != len(wanted.shape):
            raise OpTypeError(f"yields {len(made.shape)} dims, the variable has {len(wanted.shape)}", of=call.op)


def _defined_way(paths: Sequence[Path[SizedCall]], symbols: SizedSymbols) -> tuple[SizedCall, tuple[Condition, ...]]:
    """Return what a definition plans, and its guards: the answers whose opposite is an error.

    Raises:
        SizedError: it computes in different ways, or in one way where either of several guards holds.
        Exception: every way ends with an error; the first one's.
    """
    way = next((path for path in paths if path.value is not None), None)
    if way is None or way.value is None:
        raise next(path.error for path in paths if path.error is not None)
    planned, followed = way.value, way.guards
    needed: list[Condition] = []
    for number, guard in enumerate(followed):
        apart = [path.value for path in _apart(paths, followed, number)]
        if all(other is not None and _is_same(planned, other) for other in apart):
            continue
        if any(other is not None for other in apart):
            raise SizedError(f"it computes in different ways for different values of {symbols.listed((guard,))}")
        needed.append(guard)
    return planned, tuple(needed)


def _apart(paths: Sequence[Path[_Result]], guards: Sequence[Condition], number: int) -> list[Path[_Result]]:
    """Return the ways that take the other answer of a guard, after the same ones before it."""
    opposite = (*guards[:number], guards[number].negated())
    return [path for path in paths if path.guards[: number + 1] == opposite]


def _is_same(one: SizedCall, other: SizedCall) -> bool:
    """Return whether two ways through a definition compute the same, so that their guards do not matter."""
    return one.shapes == other.shapes and one.steps == other.steps and one.temporaries == other.temporaries


def _planned_way(paths: Sequence[Path[OpCall]], symbols: SizedSymbols) -> tuple[OpCall, tuple[Condition, ...]]:
    """Return the call that is planned, and its guards: the answers without which another shape, or none, is yielded.

    Raises:
        OpenInferError: every way ends with an error.
        SizedError: the number of a dim, say, tells several shapes apart.
    """
    errors = [path.error for path in paths if path.error is not None]
    if len(errors) == len(paths):
        raise errors[0]
    planned = min((path for path in paths if path.error is None), key=_rank)
    needed: list[Condition] = []
    for number, guard in enumerate(planned.guards):
        others = _apart(paths, planned.guards, number)
        if all(_agrees(planned, path) for path in others):
            continue
        if guard in planned.choices and any(path.error is None for path in others):
            raise SizedError(f"its results differ in form for different values of {symbols.listed((guard,))}")
        needed.append(guard)
    return _value(planned), tuple(needed)


def _rank(path: Path[OpCall]) -> tuple[int, int]:
    """Return how special a way is: sizes are equal to one another more often than to a number."""
    equal = [len(guard.index.variables()) for guard in path.guards if guard.relation is Relation.EQUAL]
    unequal = sum(guard.relation is Relation.UNEQUAL for guard in path.guards)
    return sum(3 if count < 2 else 1 for count in equal), -unequal


def _agrees(planned: Path[OpCall], other: Path[OpCall]) -> bool:
    """Return whether a call yields what the planned one does, where the guards of the other hold."""
    if other.error is not None:
        return False
    shapes = [[type_.shape for type_ in _value(path).outputs] for path in (planned, other)]
    if [len(shape) for shape in shapes[0]] != [len(shape) for shape in shapes[1]]:
        return False
    pairs = [(a, b) for one, two in zip(*shapes, strict=True) for a, b in zip(one, two, strict=True)]
    return all(other.knowledge.certain(Condition(Index.of(a) - Index.of(b), Relation.EQUAL)) for a, b in pairs)


def _value(path: Path[OpCall]) -> OpCall:
    if path.value is None:
        raise ValueError(f"a way that ends with an error has no call: {path.error}")
    return path.value
