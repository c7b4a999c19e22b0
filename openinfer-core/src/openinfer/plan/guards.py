"""What a statement on sizes computes and tests first: computed symbols as registers, guards as checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.compute.substitution import resized
from openinfer.dims import (
    OPERATORS,
    Condition,
    Let,
    LetKind,
    Relation,
    Stride,
    broadcast_parts,
    division,
    product,
    sources,
)
from openinfer.dims.lets import Signed
from openinfer.plan.setting_ranges import PlaceRange
from openinfer.plan.sized_calls import FIRST_LOCAL, SizedError
from openinfer.plan.sized_symbols import LARGEST
from openinfer.plan.steps import (
    Argument,
    ComputeStep,
    CopyStep,
    Demand,
    EqualStep,
    PlaceStep,
    Register,
    SetStep,
    ValueRef,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from openinfer.compute.stage import Stage
    from openinfer.ir.types import TensorType
    from openinfer.plan.calls import Operation
    from openinfer.plan.draft import Draft
    from openinfer.plan.sized_calls import SizedCall
    from openinfer.plan.steps import Operand, Step


_RELATIONS = {Relation.EQUAL: "be", Relation.UNEQUAL: "not be", Relation.AT_LEAST: "be at least"}


@dataclass(frozen=True, slots=True)
class _Span:
    """The least and the largest value of a computed symbol that ``guards`` demand."""

    least: Index | None = None
    most: Index | None = None
    guards: tuple[Condition, ...] = ()


class SizedSteps:
    """Turns one statement on sizes into steps of a plan."""

    def __init__(self, draft: Draft, call: SizedCall, at: Operation) -> None:
        self._draft = draft
        self._call = call
        self._at = at
        self._names: dict[Let, Index] = {}
        self._spans: dict[Let, _Span] = {}

    def first(self) -> Iterator[Step]:
        """Yield the steps that find computed symbols, each with its guards, and those that test the other guards."""
        lets = tuple(self._lets())
        self._spans = {let: self._span(let) for let in lets}
        for let in lets:
            if not self._is_given(let):
                yield self._let(let)
        tested = {guard for span in self._spans.values() for guard in span.guards}
        for guard in self._call.guards:
            if guard not in tested:
                yield from self._guard(guard)

    def _span(self, let: Let) -> _Span:
        """Return what guards demand of a place that is counted from the end, before or after it is counted."""
        if let.kind is not LetKind.FROM_END:
            return _Span()
        own, (inner, extent) = Index.of(let), let.parts
        counted = {
            Condition(inner + extent, Relation.AT_LEAST): (Index(), False),
            Condition(extent - 1 - inner, Relation.AT_LEAST): (extent - 1, True),
        }
        ends: dict[bool, Index] = {}
        guards: list[Condition] = []
        for guard in self._call.guards:
            end = counted.get(guard) or _end_of(guard, own, let)
            if end is not None and end[1] not in ends:
                ends[end[1]] = end[0]
                guards.append(guard)
        return _Span(ends.get(False), ends.get(True), tuple(guards))

    def _lets(self) -> Iterator[Let]:
        """Yield the computed symbols that the statement needs, each after those that it depends on."""
        call, met, sizes = self._call, dict[Let, None](), self._draft.given

        def visit(index: Index) -> None:
            for var in sorted(index.variables(), key=str):
                if isinstance(var, Let) and var not in met:
                    is_given = sizes is not None and sizes.holds(Index.of(var))
                    for part in () if is_given else (var.chosen,) if var.kind is LetKind.COMMON else var.parts:
                        visit(part)
                    met[var] = None

        for guard in call.guards:
            visit(guard.index)
        for type_ in (*call.outputs, *(type_ for _, type_ in call.added)):
            for extent in type_.shape:
                visit(Index.of(extent))
        for step in call.steps:
            if isinstance(step, ComputeStep):
                for var in step.computation.parameters:
                    visit(Index.of(var))
        yield from met

    def _is_given(self, let: Let) -> bool:
        """Return whether a symbol is known when a step starts, and note its register if so."""
        sizes, index = self._draft.given, Index.of(let)
        register = sizes.extent(index) if sizes is not None and sizes.holds(index) else None
        if not isinstance(register, Register):
            return False
        self._name(let, register, f"n{register.number}")
        return True

    def _name(self, let: Let, register: Register, name: str) -> None:
        """Note the register of a computed symbol, and what computations call it."""
        symbols = self._call.symbols
        symbols.values[let.name] = self._draft.size(register)
        symbols.words[let.name] = self._words(let)
        self._names[let] = Index.of(Var(name))

    def _words(self, let: Let) -> str:
        """Return what messages call a computed symbol: a division as the program writes it."""
        if let.kind in OPERATORS:
            return self._call.symbols.in_words(let.written)
        return f"{let.kind.value}({', '.join(map(self._shown, let.parts))})"

    def _let(self, let: Let) -> Step:
        call, draft = self._call, self._draft
        most = call.symbols.space.largest(Index.of(let))
        most = LARGEST if most is None else min(max(most, 0), LARGEST)
        # Messages of a host call a division by its register where another divides by it.
        name = f"({self._words(let)})" if let.kind in OPERATORS else f"{self._at.name}.{len(self._names)}"
        register = Register(draft.register(name, most=most))
        parts = (let.chosen,) if let.kind is LetKind.COMMON else let.parts
        first, *others = map(self._call.expression, parts)
        self._name(let, register, f"m{len(self._names)}")
        if let.kind in OPERATORS:
            quotient = division(OPERATORS[let.kind], first, *others)
            return SetStep(origin=self._at.origin, values=((register.number, quotient),))
        if let.kind in (LetKind.SUM, LetKind.COMMON):
            return SetStep(origin=self._at.origin, values=((register.number, first),))
        if let.kind is LetKind.STRIDE:
            # An extent less 1 is 0 where it is 1, and above it else: that of 0 counts from the end of two.
            less, two = self._call.expression(let.parts[0] - 1), Index.of(2)
            span = PlaceRange(low=Index.of(0), high=Index.of(1), least=None, most=None, size=two)
            return PlaceStep(origin=self._at.origin, register=register.number, value=less, range=span)
        low, high = Index.of(-LARGEST), Index.of(LARGEST)
        if let.kind is LetKind.FROM_END:
            least, most = (
                None if end is None else self._call.expression(end)
                for end in (self._spans[let].least, self._spans[let].most)
            )
            span = PlaceRange(low=least or low, high=most or high, least=least, most=most, size=others[0])
        elif let.kind is LetKind.MAX:
            span = PlaceRange(low=others[0], high=high, least=None, most=None)
        else:
            span = PlaceRange(low=low, high=others[0], least=None, most=None)
        demand = self._demand_of_place(let) if span.least is not None or span.most is not None else None
        return PlaceStep(origin=self._at.origin, register=register.number, value=first, range=span, demand=demand)

    def _guard(self, guard: Condition) -> Iterator[Step]:
        origin = self._at.origin
        if guard.relation is Relation.EQUAL:
            left, right = map(self._call.expression, guard.sides)
            if left != right:
                yield EqualStep(origin=origin, left=left, right=right, demand=self._demand(guard))
            return
        value = yield from self._at_least_one(guard)
        register = self._draft.register(f"{self._at.name}.guard", most=LARGEST)
        demand, one = self._demand(guard), Index.of(1)
        span = PlaceRange(low=one, high=Index.of(LARGEST), least=one, most=None)
        yield PlaceStep(origin=origin, register=register, value=value, range=span, demand=demand)

    def _at_least_one(self, guard: Condition) -> Generator[Step, None, Index]:
        """Return a value that is at least 1 where a guard holds, after the step that finds it."""
        index = guard.index
        if guard.relation is Relation.AT_LEAST:
            return self._call.expression(index + 1)
        bounds = self._call.symbols.space.bounds(index)
        if bounds.low is not None and bounds.low >= 0:
            return self._call.expression(index)
        if bounds.high is not None and bounds.high <= 0:
            return self._call.expression(-index)
        # The square of the index itself may have more bits than a register.
        register = self._draft.register(f"{self._at.name}.sign", most=1)
        span = PlaceRange(low=Index.of(-1), high=Index.of(1), least=None, most=None)
        value = self._call.expression(index)
        yield PlaceStep(origin=self._at.origin, register=register, value=value, range=span)
        sign = self._draft.size(Register(register))
        return sign * sign

    # Words

    def _demand(self, guard: Condition) -> Demand:
        """Return what a guard demands, with positive terms on both sides."""
        parts = broadcast_parts(guard.index)
        if parts:
            *shown, last = map(self._shown, parts)
            return self._demand_about(f"{', '.join(shown)} and {last} must be equal, or one of them 1", guard.index)
        counted = _counted_equal(guard)
        if counted is not None:
            inner, values = counted
            listed = " or ".join(map(self._shown, values))
            return self._demand_about(f"{self._shown(inner)} must be {listed}", guard.index)
        left, right = map(self._shown, guard.sides)
        return self._demand_about(f"{left} must {_RELATIONS[guard.relation]} {right}", guard.index)

    def _demand_of_place(self, let: Let) -> Demand:
        inner, extent = let.parts
        most = self._spans[let].most
        last = "" if most is None else f" to {self._shown(most)}"
        return self._demand_about(
            f"{self._shown(inner)} must be {self._shown(-extent)}{last}", inner - (most or extent)
        )

    def _demand_about(self, text: str, index: Index) -> Demand:
        symbols = self._call.symbols
        names = sorted(sources(index))
        sizes = tuple((symbols.words[name], symbols.values[name]) for name in names)
        return Demand(f"{self._call.op}: {text}", sizes)

    def _shown(self, index: Index) -> str:
        words = self._call.symbols.words
        named = {var: Index.of(Var(words[var.name])) for var in index.variables() if var.name in words}
        return str(index.substituted(named))

    def fits(self, extent: Index, wanted: int | Register) -> EqualStep:
        """Return the test that an extent of a result is one that is declared."""
        draft, made = (
            self._draft,
            self._demand_about(f"{self._shown(extent)} must be {self._draft.words(wanted)}", extent),
        )
        own = ((draft.words(wanted), draft.size(wanted)),) if isinstance(wanted, Register) else ()
        demand = replace(made, sizes=tuple(dict((*made.sizes, *own)).items()))
        left, right = self._call.expression(extent), draft.size(wanted)
        return EqualStep(origin=self._at.origin, left=left, right=right, demand=demand)

    # The steps of the call

    def steps(self, outputs: Sequence[int]) -> Iterator[Step]:
        """Yield the steps of the call, whose results are some values of the plan."""
        call = self._call
        numbers = {FIRST_LOCAL + number: value for number, value in enumerate(outputs)}
        for number, (name, type_) in enumerate(call.added):
            value = self._draft.intermediate(name, self._largest(type_))
            numbers[FIRST_LOCAL + len(outputs) + number] = value
        for step in call.steps:
            yield self._step(step, numbers)

    def _largest(self, type_: TensorType) -> TensorType:
        return replace(type_, shape=self._call.room(tuple(map(Index.of, type_.shape))))

    def _step(self, step: Step, numbers: dict[int, int]) -> Step:
        def renumbered(operand: Operand) -> Operand:
            number = numbers.get(operand.value) if isinstance(operand, ValueRef) else None
            return operand if number is None else ValueRef(number)

        if isinstance(step, ComputeStep):
            parameters = step.computation.parameters
            variables = {var: self._variable(var, parameters) for var in parameters}
            values = {var: Index.of(other) for var, other in variables.items() if var != other}
            made = resized(step.computation, values)
            stages = tuple(map(self._in_words, made.stages))
            made = replace(made, stages=stages, parameters=tuple(variables.values()))
            return replace(
                step,
                computation=made,
                inputs=tuple(map(renumbered, step.inputs)),
                outputs=tuple(numbers[value] for value in step.outputs),
                temporaries=tuple(numbers[value] for value in step.temporaries),
                arguments=tuple(map(self._argument, parameters)),
            )
        if isinstance(step, CopyStep):
            result = step.output - FIRST_LOCAL
            results = (*self._call.outputs, *(type_ for _, type_ in self._call.added))
            extents = [Index.of(extent) for extent in results[result].shape]
            count = product(map(self._call.expression, extents))
            is_known = all(extent.constant is not None for extent in extents)
            return replace(
                step, source=renumbered(step.source), output=numbers[step.output], count=None if is_known else count
            )
        raise SizedError("it is carried out by a loop program of its own")

    def _in_words(self, stage: Stage) -> Stage:
        """Return a stage whose rules about elements call sizes what the program does."""
        shown = self._call.symbols.in_words
        return replace(
            stage,
            lookups=tuple(replace(lookup, rule=shown(lookup.rule)) for lookup in stage.lookups),
            checks=tuple(replace(check, rule=shown(check.rule)) for check in stage.checks),
        )

    def _variable(self, var: Var, parameters: Sequence[Var]) -> Var:
        """Return the parameter of a computation for a symbol, below the extent that guards or its own values say."""
        if not isinstance(var, Let):
            bounds = self._call.symbols.space.bounds(Index.of(var))
            is_setting = not self._call.symbols.is_of_step(var.name)
            if is_setting and bounds.low == 0 and bounds.high is not None and bounds.high < LARGEST:
                return Var(var.name, bounds.high + 1)
            return var
        (name,) = self._names[var].variables()
        if var.kind is LetKind.STRIDE:
            return Stride(name.name, 2)
        if not self._call.symbols.space.is_never_negative(Index.of(var)):
            return Signed(name.name)
        most = self._spans[var].most
        if most is None or not most.variables() <= set(parameters):
            return name
        extent = most + 1
        return Var(name.name, extent if extent.constant is None else extent.constant)

    def _argument(self, var: Var) -> Argument:
        bounds = self._call.symbols.space.bounds(Index.of(var))
        high = self._call.symbols.space.largest(Index.of(var))
        low = -LARGEST if bounds.low is None else max(bounds.low, -LARGEST)
        return Argument(self._call.symbols.values[var.name], low, LARGEST if high is None else min(high, LARGEST))


def _counted_equal(guard: Condition) -> tuple[Index, tuple[Index, Index]] | None:
    """Return a place that counts from an end and its two values, one of them negative, that a guard demands."""
    if guard.relation is not Relation.EQUAL:
        return None
    for var in guard.index.variables():
        factor = guard.index.coefficient(var)
        if isinstance(var, Let) and var.kind is LetKind.FROM_END and factor in (1, -1):
            inner, extent = var.parts
            value = Index.of(var) - guard.index * factor
            return inner, (value, value - extent)
    return None


def _end_of(guard: Condition, own: Index, let: Let) -> tuple[Index, bool] | None:
    """Return the least or largest value of a symbol that a guard states, and whether it is the largest."""
    factor = guard.index.coefficient(let) if guard.relation is Relation.AT_LEAST else None
    if factor not in (1, -1):
        return None
    rest = guard.index - own * factor
    is_plain = not any(isinstance(var, Let) for var in rest.variables())
    return (rest * -factor, factor == -1) if is_plain else None
