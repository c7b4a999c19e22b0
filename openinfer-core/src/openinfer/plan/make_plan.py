"""Making a plan: lowering, dead steps away, constants computed, fusion, passes of plugins, live ranges, arena."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.errors import SynthesisError
from openinfer.ir.resolved import Filled, Storage
from openinfer.plan.accesses import Accesses, mask, written
from openinfer.plan.arena import LEAST, placed
from openinfer.plan.arrangement import Arranged, arranged
from openinfer.plan.banks import states_nbytes, writable
from openinfer.plan.code_copies import with_codes_apart
from openinfer.plan.concatenated import without_concatenations
from openinfer.plan.constants import with_constants
from openinfer.plan.dead_steps import reached, without_dead_steps
from openinfer.plan.directions import taking_turns
from openinfer.plan.execution_plan import Bank, ExecutionPlan
from openinfer.plan.findings import about
from openinfer.plan.fusion import Fusion, fuse
from openinfer.plan.integer_sums import with_integer_sums
from openinfer.plan.liveness import Liveness
from openinfer.plan.lowering import lower
from openinfer.plan.memory import (
    START,
    initial_steps,
    input_values,
    output_copies,
    reset_steps,
    roles_and_memory,
    state_values,
    touched_tables,
)
from openinfer.plan.parallel import check_races
from openinfer.plan.passes import with_passes
from openinfer.plan.plan_data import PlanData
from openinfer.plan.plan_options import DEFAULT, PlanOptions
from openinfer.plan.row_teams import in_row_teams
from openinfer.plan.size_checks import checks_first, declared_checks
from openinfer.plan.stages import arranged_listing, ignored, listing, schedule
from openinfer.plan.steps import Procedure, Register
from openinfer.plan.tables import weight_table
from openinfer.plan.unit_dims import without_unit_copies
from openinfer.plan.values import PlanInput, PlanOutput, PlanState
from openinfer.plan.views import with_views
from openinfer.plan.weights import WeightStore
from openinfer.plan.wide_floats import with_wide_floats
from openinfer.plan.words import worded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.arch import MemoryBank
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.plan.draft import Draft
    from openinfer.plan.stages import Watch
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanValue
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable


RESET = "model.reset"
"""Name of the procedure that gives states their initial values, while memory is planned; no block has a point."""


def make_plan(
    resolved: ResolvedGraph,
    model: Model,
    environment: Environment,
    table: KernelTable,
    options: PlanOptions = DEFAULT,
    *,
    watch: Watch = ignored,
) -> ExecutionPlan:
    """Return the plan of a program for the target of ``table``.

    Args:
        watch: is called after each pass.

    Raises:
        SynthesisError: something in the program cannot be carried out on the target; it names the line.
    """
    draft = lower(resolved, model, environment, table, options)
    after = _watching(draft, watch)
    after("lower", draft.procedures)
    started = _started(draft, resolved, inspected=options.inspected)
    after("initialise", started.procedures)
    procedures = _rewritten(draft, started, model, environment, options, after)
    made = _arranged(draft, procedures, started, model, options)
    check_races(made.procedures, made.values)
    watch("arrange", lambda: arranged_listing(draft, _inputs(draft, 0), made.procedures[1:], made))
    plan = _finished(table.target, draft, started, made, options)
    watch("place", lambda: f"{schedule(plan)}\n\n{plan.memory_map()}")
    return plan


def _finished(target: str, draft: Draft, started: _Started, made: Arranged, options: PlanOptions) -> ExecutionPlan:
    """Return the plan of an arranged program: its values get their places."""
    banks = writable(options.memories) if options.memories else None
    values, (reset, *blocks), used = _placed(made, started.wanted, banks, options)
    return ExecutionPlan(
        target=target,
        inputs=_inputs(draft, started.needed),
        outputs=_outputs(draft, values, started),
        values=values,
        weights=made.weights,
        tables=made.tables,
        procedures=tuple(blocks),
        arena_nbytes=sum(used),
        banks=_banks(banks, used, values) if banks else (),
        states=_states(draft),
        registers=tuple(draft.registers),
        reset=reset.steps,
    )


def _watching(draft: Draft, watch: Watch) -> Callable[[str, Sequence[Procedure]], None]:
    """Return a function that shows ``watch`` the program after a pass."""
    return lambda name, procedures: watch(name, lambda: listing(draft, _inputs(draft, 0), procedures))


@dataclass(frozen=True, slots=True)
class _Started:
    """A program that begins with the steps that give values their first contents.

    Attributes:
        names, results: of the outputs, with their values.
        wanted: values that are needed when a step of the program ends, as bits.
        needed: those that a step needs when it begins, as bits.
    """

    procedures: tuple[Procedure, ...]
    names: tuple[str, ...]
    results: Sequence[int]
    wanted: int
    needed: int


def _started(draft: Draft, resolved: ResolvedGraph, *, inspected: bool) -> _Started:
    reachable = reached(draft.procedures)
    changed = written(reachable)
    names = _output_names(draft, resolved, changed, inspected=inspected)
    _refuse_varying_packed(draft, names)
    results, copies = output_copies(draft, names, changed)
    kept = mask(state_values(draft))
    wanted = mask(results) | kept
    procedures, liveness = without_dead_steps(_with_start(reachable, copies), wanted, kept)
    needed = liveness.at_start
    procedures, checks = checks_first(draft, resolved, procedures)
    declared = [v for v in resolved.variables.values() if v.storage in (Storage.DYNAMIC, Storage.VOLATILE)]
    checks = (*(step for variable in declared for step in declared_checks(draft, variable, START)), *checks)
    procedures = _with_start(procedures, [*initial_steps(draft, needed, written(procedures)), *checks])
    return _Started(procedures, names, results, wanted, needed)


def _rewritten(
    draft: Draft,
    started: _Started,
    model: Model,
    environment: Environment,
    options: PlanOptions,
    after: Callable[[str, Sequence[Procedure]], None],
) -> Sequence[Procedure]:
    """Return the steps of a program after the passes of plugins, computing constants and fusion.

    ``after`` is called after each pass.
    """
    wanted = started.wanted
    procedures = with_passes(started.procedures, _types(draft), wanted, environment, "lowered", after)
    if options.folds:
        procedures = with_constants(draft, procedures, wanted, model)
        after("constants", procedures)
    procedures = _fused(draft, procedures, wanted, options)
    after("fuse", procedures)
    return with_passes(procedures, _types(draft), wanted, environment, "plan", after)


def _arranged(
    draft: Draft, procedures: Sequence[Procedure], started: _Started, model: Model, options: PlanOptions
) -> Arranged:
    """Return the program with memory for weights, views, and layouts and schedules where there are any.

    Values have no places yet.
    """
    kept = mask(state_values(draft))
    live_steps, _ = without_dead_steps(procedures, started.wanted, kept)
    procedures = (Procedure(RESET, reset_steps(draft)), *live_steps)
    store = WeightStore(model)
    values = roles_and_memory(draft, procedures, started.results, store)
    read = touched_tables(procedures)
    tables = [weight_table(use, model, store) for use in draft.tables.values() if use.number in read]
    procedures, values = with_views(draft, procedures, values, Liveness(procedures, started.wanted))
    if not options.scheduled:
        return Arranged(tuple(procedures), values, tuple(store.weights), tuple(tables))
    data = PlanData(list(values), list(store.weights), list(tables))
    procedures = without_unit_copies(procedures, values, started.wanted)
    procedures = without_concatenations(procedures, values, started.wanted)
    if options.machine.lanes(F32.bits // 8) > 1 and not options.memories:
        procedures = with_wide_floats(procedures, data, started.wanted)
    small = worded(procedures, data.values, data.weights)
    data = PlanData(list(small.values), list(small.weights), data.tables)
    has_price, has_floats = options.machine.fpu is not None, options.machine.fpu != "none"
    return arranged(
        with_integer_sums(small.procedures, data, has_floats=has_floats) if has_price else small.procedures,
        data.values,
        data.weights,
        data.tables,
        options.machine,
        started.wanted,
        overlaps=options.overlaps,
        schedules=options.schedules,
    )


def _placed(
    made: Arranged, wanted: int, banks: Sequence[MemoryBank] | None, options: PlanOptions
) -> tuple[tuple[PlanValue, ...], Sequence[Procedure], Sequence[int]]:
    """Return values with their places, steps in the order in which they walk them, and the bytes of each bank."""
    overlaps = options.overlaps
    procedures, live = made.procedures, Liveness(made.procedures, wanted)
    in_arena = partial(placed, overlaps=overlaps, banks=banks, states_first=options.states_first)
    values, used = in_arena(made.values, procedures, live)
    turns = taking_turns(procedures, live, made.values, sum(used)) if overlaps and sum(used) > LEAST else None
    if turns is None:
        return values, procedures, used
    live = Liveness(turns.procedures, wanted)
    try:
        other, less = in_arena(made.values, turns.procedures, live, least=turns.offsets)
    except SynthesisError:
        # The other way, the values fit into the memories.
        return values, procedures, used
    return (other, turns.procedures, less) if sum(less) < sum(used) else (values, procedures, used)


def _types(draft: Draft) -> tuple[TensorType, ...]:
    return tuple(value.type for value in draft.values)


def _outputs(draft: Draft, values: Sequence[PlanValue], started: _Started) -> tuple[PlanOutput, ...]:
    return tuple(
        PlanOutput(name=name, type=values[value].type, value=value, extents=_extents(draft, value))
        for name, value in zip(started.names, started.results, strict=True)
    )


def _banks(banks: Sequence[MemoryBank], used: Sequence[int], values: Sequence[PlanValue]) -> tuple[Bank, ...]:
    return tuple(
        Bank(bank.name, bank.kind, bank.nbytes, nbytes, states_nbytes(values, number))
        for number, (bank, nbytes) in enumerate(zip(banks, used, strict=True))
    )


def _output_names(draft: Draft, resolved: ResolvedGraph, changed: int, *, inspected: bool) -> tuple[str, ...]:
    """Return what ``entry`` returns, and every volatile that the program writes: without a return, or ``inspected``."""
    volatile = [name for name, variable in resolved.variables.items() if variable.storage is Storage.VOLATILE]
    changed_names = tuple(name for name in volatile if name in draft.numbers and changed >> draft.numbers[name] & 1)
    if draft.returned:
        for name in draft.returned:
            if name not in resolved.variables:
                raise about("unsupported", f"`return {name}`: an entry of a prefix table cannot be a result")
            if resolved.variables[name].storage is Storage.PERSISTENT:
                hint = f"read it with `cache.read {name} >> ...` and return what was read"
                raise about("unsupported", f"`return {name}`: a persistent variable cannot be a result", hint)
            if name not in draft.numbers:
                draft.add_variable(resolved.variables[name])
        return tuple(dict.fromkeys((*draft.returned, *(changed_names if inspected else ()))))
    if not changed_names:
        hint = "end block entry with `return NAME;`, or write a volatile variable"
        raise about("no-outputs", "the program has no results: it returns nothing and writes no volatile", hint)
    return changed_names


def _refuse_varying_packed(draft: Draft, names: Sequence[str]) -> None:
    inputs = {number: draft.values[number].name for number in input_values(draft)}
    for number, name in {**inputs, **{draft.numbers[name]: name for name in names}}.items():
        kind = draft.values[number].type
        if kind.dtype.is_packed and _extents(draft, number) is not None:
            what = "an input" if number in inputs else "a result"
            message = f"`{name}` is {what} of packed {kind.dtype}, and its shape is known at run time only"
            raise about("unsupported", message, "return a value of i8 or u8 that it is cast to")


def _extents(draft: Draft, value: int) -> tuple[int | Register, ...] | None:
    """Return the extents of a value whose shape is known at run time only."""
    extents = draft.extents.get(value, ())
    return extents if any(isinstance(extent, Register) for extent in extents) else None


def _with_start(procedures: Sequence[Procedure], steps: Sequence[Step]) -> tuple[Procedure, ...]:
    """Return the procedures with steps put before those of the last one, where the program starts."""
    start = procedures[-1]
    return (*procedures[:-1], Procedure(start.name, (*steps, *start.steps)))


def _states(draft: Draft) -> tuple[PlanState, ...]:
    return tuple(
        PlanState(number=number, name=draft.values[value].name, type=draft.values[value].type, value=value)
        for number, value in enumerate(state_values(draft))
    )


def _fused(draft: Draft, procedures: Sequence[Procedure], wanted: int, options: PlanOptions) -> tuple[Procedure, ...]:
    keeps_codes = options.machine.fpu is not None
    if keeps_codes:
        procedures = with_codes_apart(procedures, draft)
    kept, types = mask(state_values(draft)), _types(draft)
    sizes = frozenset[int]() if draft.given is None else draft.given.numbers

    def around(steps: Sequence[Procedure]) -> Fusion:
        accesses = Accesses(steps)
        return Fusion(
            types, Liveness(steps, wanted), accesses, options.epilogues, kept, options.most_ops, sizes, keeps_codes
        )

    fused = fuse(procedures, around(procedures))
    if keeps_codes:
        # What would have stored bytes as wider elements is part of their reader by then, which may store bytes.
        fused = fuse(fused, around(fused))
    return fused if options.scheduled else in_row_teams(fused, around(fused))


def _inputs(draft: Draft, needed: int) -> tuple[PlanInput, ...]:
    inputs: list[PlanInput] = []
    for number in input_values(draft):
        value = draft.values[number]
        initial = value.variable.initial if value.variable is not None else None
        default = initial.value if isinstance(initial, Filled) else None
        read = bool(needed >> number & 1)
        extents = _extents(draft, number)
        inputs.append(
            PlanInput(name=value.name, type=value.type, value=number, default=default, needed=read, extents=extents)
        )
    return tuple(inputs)
