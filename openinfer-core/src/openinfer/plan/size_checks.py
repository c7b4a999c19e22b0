"""Checks that depend on the sizes of a step alone, in front of everything that a step does.

A step whose sizes do not fit a statement that it is certain to reach changes nothing (``specification:
runtime.sizes.7``). `openinfer.ir.reaching` follows the same statements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index
from openinfer.dims import divides_by_numbers, substituted
from openinfer.ir.nodes import CacheRead, CacheWrite
from openinfer.ir.reaching import DEEPEST_CALLS
from openinfer.ir.uses import reads, writes
from openinfer.plan.accesses import called, changed_registers, expressions, walk
from openinfer.plan.operands import symbols
from openinfer.plan.setting_ranges import PlaceRange
from openinfer.plan.sized_symbols import LARGEST
from openinfer.plan.steps import (
    CallStep,
    Demand,
    EqualStep,
    LoopStep,
    PlaceStep,
    Procedure,
    Register,
    ReturnStep,
    SetStep,
)
from openinfer.symbolic import Name, names, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph, ResolvedVar
    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import Origin, Step

Simple: TypeAlias = SetStep | PlaceStep | EqualStep

MOST_ENTRIES = 16
"""Most times that the checks of a block are repeated, once for each loop that may have no iteration.

Blocks that call one another from such loops would be as many as there are ways through them. Where a step reaches a
block by a further way alone, it is refused there.
"""


def declared_checks(draft: Draft, variable: ResolvedVar, origin: Origin) -> Iterator[PlaceStep]:
    """Yield the tests that no extent of a variable is below 0, where sizes of the step may make it so."""
    given_sizes = draft.given
    if given_sizes is None:
        return
    for dim in given_sizes.negative(variable.dims):
        register = draft.register(f"{variable.name}.extent", most=LARGEST)
        span = PlaceRange(low=Index.of(0), high=Index.of(LARGEST), least=Index.of(0), most=None)
        sizes = tuple((name, given_sizes.expression(Name(name))) for name in names(dim))
        demand = Demand(f"`{variable.name}`: {text(dim)} must be at least 0", sizes)
        value = given_sizes.expression(dim)
        yield PlaceStep(origin=origin, register=register, value=value, range=span, demand=demand)


@dataclass(frozen=True, slots=True)
class _Check:
    """A step of a check, or a loop around some.

    Attributes:
        moved: the step of the program whose place it takes; None where that stays.
        body: what a loop runs once.
    """

    step: Simple | LoopStep
    moved: Step | None = None
    body: tuple[_Check, ...] = ()


def checks_first(
    draft: Draft, resolved: ResolvedGraph, procedures: Sequence[Procedure]
) -> tuple[tuple[Procedure, ...], tuple[Step, ...]]:
    """Return the procedures, and the checks that come before the steps of the last one, where a step starts.

    A check of the last procedure moves there; one in a loop or in another procedure stays, and is made there as well.
    """
    if draft.given is None:
        return tuple(procedures), ()
    *others, entry = procedures
    checks, _ = _needed(_Checks(draft, resolved, procedures).of_steps(entry.steps, 0, moves=True), frozenset())
    moved = {id(check.moved) for check in checks if check.moved is not None}
    left = tuple(step for step in entry.steps if id(step) not in moved)
    return (*others, Procedure(entry.name, left)), tuple(check.step for check in checks)


class _Checks:
    """Collects the checks of statements that a step is certain to reach, and what they need.

    A check reads what registers hold at its statement: ``self._held`` has, for each that depends on sizes alone, the
    register that holds this from the start of the step on.
    """

    def __init__(self, draft: Draft, resolved: ResolvedGraph, procedures: Sequence[Procedure]) -> None:
        self._draft = draft
        self._steps = {procedure.name: procedure.steps for procedure in procedures}
        self._changed: dict[str, frozenset[int]] = {}
        for procedure in procedures:
            self._changed[procedure.name] = self._changed_by(procedure.steps)
        self._held = {register: register for register in _registers_at_start(draft)}
        changes = Counter(
            register
            for procedure in procedures
            for step in walk(procedure.steps)
            for register in changed_registers(step)
        )
        extents = (
            extent.number for shape in draft.extents.values() for extent in shape if isinstance(extent, Register)
        )
        self._local = {register for register, count in changes.items() if count == 1}.difference(extents)
        nodes = [node for _, node in resolved.graph.nodes()]
        self._shaped_by_memory = {node.index for node in nodes if _is_shaped_by_memory(node, resolved)}
        self._loops = max((node.index for node in nodes), default=0)
        self._entered: frozenset[str] = frozenset()
        self._entries: Counter[str] = Counter()

    def of_steps(self, steps: Sequence[Step], depth: int, *, moves: bool) -> tuple[_Check, ...]:
        """Return the checks of steps up to the first that may leave their procedure."""
        checks: list[_Check] = []
        for step in steps:
            match step:
                case SetStep() | PlaceStep() | EqualStep():
                    checks += self._of_simple(step, moves=moves)
                case LoopStep():
                    checks += self._of_loop(step, depth)
                    if any(isinstance(inner, ReturnStep) for inner in walk(step.body)):
                        break
                case CallStep():
                    checks += self._of_call(step, depth)
                case ReturnStep():
                    break
                case _:
                    self._forget(changed_registers(step))
        return tuple(checks)

    def _of_call(self, step: CallStep, depth: int) -> tuple[_Check, ...]:
        checks: tuple[_Check, ...] = ()
        name = step.procedure
        is_first = name not in self._entered and self._entries[name] < MOST_ENTRIES
        if step.condition is None and depth < DEEPEST_CALLS and is_first:
            self._entered |= {name}
            self._entries[name] += 1
            checks = self.of_steps(self._steps[step.procedure], depth + 1, moves=False)
        for name in called(step):
            self._forget(self._changed[name])
        return checks

    def _of_loop(self, step: LoopStep, depth: int) -> tuple[_Check, ...]:
        """Return the checks of the first iteration of a loop, as a loop of at most one."""
        checks, entered = tuple[_Check, ...](), self._entered
        start, end = self._at_start(step.start), self._at_start(step.end)
        if start is not None and end is not None and depth < DEEPEST_CALLS:
            body = self.of_steps(step.body, depth + 1, moves=False)
            checks = body if step.runs or not body else self._at_most_once(step, end - start, body)
        self._forget(self._changed_by((step,)))
        if not step.runs:
            # Blocks that are entered in it alone are not entered at sizes at which it has no iteration.
            self._entered = entered
        return checks

    def _at_most_once(self, step: LoopStep, turns: Index, body: tuple[_Check, ...]) -> tuple[_Check, ...]:
        register = self._draft.register(f"{step.name}.runs", most=1)
        once = PlaceRange(low=Index.of(0), high=Index.of(1), least=None, most=None)
        runs = PlaceStep(origin=step.origin, register=register, value=turns, range=once)
        self._loops += 1
        end = self._draft.size(Register(register))
        loop = replace(step, loop=self._loops, start=Index.of(0), end=end, body=())
        return _Check(runs), _Check(loop, body=body)

    def _of_simple(self, step: Simple, *, moves: bool) -> Iterator[_Check]:
        if isinstance(step, SetStep):
            yield from self._of_set(step, moves=moves)
            return
        is_checked_there = step.origin.statements and step.origin.statements[0].node in self._shaped_by_memory
        changed = None if is_checked_there else self._with_values(step)
        if changed is None:
            self._forget(changed_registers(step))
        elif isinstance(changed, EqualStep):
            yield _Check(changed, step if moves else None)
        else:
            is_moved = moves and step.register in self._local if isinstance(step, PlaceStep) else False
            register = changed.register if is_moved else self._copy(changed.register)
            self._held[changed.register] = register
            yield _Check(replace(changed, register=register), step if is_moved else None)

    def _of_set(self, step: SetStep, *, moves: bool) -> Iterator[_Check]:
        values = {register: self._at_start(value) for register, value in step.values}
        held = {register: value for register, value in values.items() if value is not None}
        is_moved = moves and held.keys() == values.keys() and held.keys() <= self._local
        self._forget(values)
        self._held |= {register: register if is_moved else self._copy(register) for register in held}
        made = tuple((self._held[register], value) for register, value in held.items())
        if made:
            yield _Check(replace(step, values=made), step if is_moved else None)

    def _copy(self, register: int) -> int:
        named = self._draft.registers[register]
        return self._draft.register(f"{named.name}.first", most=named.most)

    def _forget(self, registers: Iterable[int]) -> None:
        for register in registers:
            self._held.pop(register, None)

    def _changed_by(self, steps: Iterable[Step]) -> frozenset[int]:
        """Return the registers that steps change, those included that they call."""
        return frozenset(
            register
            for step in walk(steps)
            for register in (
                *changed_registers(step),
                *(inner for name in called(step) for inner in self._changed[name]),
            )
        )

    # Values at the start of a step

    def _with_values(self, step: PlaceStep | EqualStep) -> PlaceStep | EqualStep | None:
        """Return a step whose expressions are those at the start; None where one depends on more than sizes."""
        if isinstance(step, EqualStep):
            left, right = self._at_start(step.left), self._at_start(step.right)
            if left is None or right is None:
                return None
            return replace(step, left=left, right=right, demand=self._demand(step.demand))
        value, bounds = self._at_start(step.value), step.range
        ends = {name: getattr(bounds, name) for name in ("low", "high", "least", "most", "size")}
        held = {name: None if end is None else self._at_start(end) for name, end in ends.items()}
        if value is None or any(held[name] is None and end is not None for name, end in ends.items()):
            return None
        return replace(step, value=value, range=replace(bounds, **held), demand=self._demand(step.demand))

    def _at_start(self, expr: Index) -> Index | None:
        if not divides_by_numbers(expr):
            return None
        held: dict[Var, Index] = {}
        for symbol in symbols(expr):
            register = self._held.get(symbol.operand.number) if isinstance(symbol.operand, Register) else None
            if register is None:
                return None
            held[symbol] = self._draft.size(Register(register))
        return substituted(expr, held)

    def _demand(self, demand: Demand | None) -> Demand | None:
        if demand is None:
            return None
        return replace(demand, sizes=tuple((name, self._at_start(value) or value) for name, value in demand.sizes))


def _is_shaped_by_memory(node: Node, resolved: ResolvedGraph) -> bool:
    """Whether a statement is on persistent memory, or on a variable whose shape a read of it decides.

    Its shapes are not all known before the step runs, so it fits or not as a whole where it is reached.
    """
    if isinstance(node.kind, CacheRead | CacheWrite):
        return True
    variables = resolved.variables
    return any(name in variables and variables[name].varying for name in reads(node) | writes(node))


def _registers_at_start(draft: Draft) -> Iterator[int]:
    """Yield the registers that hold sizes, or what depends on them, when the statements of a step begin."""
    if draft.given is not None:
        yield from draft.given.registers.values()
        yield from (register for register, _ in draft.given.starts())
    yield from (register for register, _ in draft.starts)


def _needed(checks: Sequence[_Check], wanted: frozenset[int]) -> tuple[tuple[_Check, ...], frozenset[int]]:
    """Return the steps that may refuse a step of the program, and those that set what they read.

    Args:
        wanted: registers that later steps read; returned with those that these steps read.
    """
    kept: list[_Check] = []
    for check in reversed(checks):
        step = check.step
        if isinstance(step, LoopStep):
            body, wanted = _needed(check.body, wanted)
            if not body:
                continue
            step = replace(step, body=tuple(inner.step for inner in body))
        elif not _refuses(step) and wanted.isdisjoint(changed_registers(step)):
            continue
        kept.append(replace(check, step=step))
        wanted |= frozenset(_reads(step))
    return tuple(reversed(kept)), wanted


def _refuses(step: Simple) -> bool:
    if isinstance(step, PlaceStep):
        return step.range.least is not None or step.range.most is not None
    return isinstance(step, EqualStep)


def _reads(step: Simple | LoopStep) -> Iterator[int]:
    read = (symbol.operand for expr in expressions(step) for symbol in symbols(expr))
    yield from (operand.number for operand in read if isinstance(operand, Register))
