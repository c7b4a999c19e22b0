"""Memory of every value: the caller's, a weight, or a place in the arena; and the steps that give initial values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dims import Relation, lets_in, product
from openinfer.ir.resolved import Storage
from openinfer.plan.accesses import members, operands, touched, walk, written
from openinfer.plan.draft import DraftValue
from openinfer.plan.given_sizes import parameter_name
from openinfer.plan.initial import initial_steps_of
from openinfer.plan.setting_ranges import PlaceRange, length_range
from openinfer.plan.sized_symbols import LARGEST
from openinfer.plan.steps import (
    CopyStep,
    Demand,
    EqualStep,
    InputStep,
    Origin,
    PlaceStep,
    Register,
    SetStep,
    TableRef,
    ValueRef,
)
from openinfer.plan.values import (
    InputMemory,
    NoMemory,
    OutputMemory,
    PlanValue,
    Role,
    StateMemory,
    WeightMemory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.plan.draft import Draft
    from openinfer.plan.given_sizes import GivenSizes
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.weights import WeightStore

START = Origin("entry", ())
"""Origin of the steps that give values their contents when a step of the program starts."""


def input_values(draft: Draft) -> list[int]:
    """Return the values that the caller gives, in order."""
    storages = [value.variable.storage if value.variable is not None else None for value in draft.values]
    return [number for number, storage in enumerate(storages) if storage is Storage.DYNAMIC]


def touched_tables(procedures: Iterable[Procedure]) -> set[int]:
    """Return the numbers of the tables that some step reads."""
    return {o.table for p in procedures for step in walk(p.steps) for o in operands(step) if isinstance(o, TableRef)}


def output_copies(draft: Draft, names: Sequence[str], written: int) -> tuple[list[int], list[Step]]:
    """Return the value of each output, and copies for those that no step writes: weights and inputs handed on."""
    results: list[int] = []
    copies: list[Step] = []
    for name in names:
        value = draft.numbers[name]
        if not written >> value & 1:
            source = value
            draft.values.append(DraftValue(name, draft.values[value].type, None))
            value = len(draft.values) - 1
            if source in draft.extents:
                draft.extents[value] = draft.extents[source]
            copies.append(CopyStep(origin=START, source=ValueRef(source), output=value, count=_count(draft, source)))
        results.append(value)
    return results, copies


def _count(draft: Draft, value: int) -> Index | None:
    """Return how many elements a value has, where that is known at run time only."""
    extents = draft.extents.get(value, ())
    if not any(isinstance(extent, Register) for extent in extents):
        return None
    return product(tuple(draft.size(extent) for extent in extents))


def initial_steps(draft: Draft, live: int, written: int) -> Iterator[Step]:
    """Yield the steps that initialise values that may be read before they are written.

    Sizes that depend on those that the caller gives come first.
    """
    yield from _start_sizes(draft)
    inputs = {number: at for at, number in enumerate(input_values(draft))}
    for value in members(live):
        variable = draft.values[value].variable
        if variable is None or variable.storage is Storage.PERSISTENT:
            continue
        if variable.storage is Storage.DYNAMIC:
            if written >> value & 1 or variable.initial is not None:
                yield InputStep(origin=START, number=inputs[value], output=value, count=_count(draft, value))
        elif written >> value & 1:
            yield from initial_steps_of(draft, value, START)


def _start_sizes(draft: Draft) -> Iterator[Step]:
    """Yield the steps that compute sizes when a step starts."""
    values = list(draft.starts)
    others: list[Step] = []
    if draft.given is not None:
        yield from _demands(draft, draft.given)
        for register, extent in draft.given.starts():
            value = draft.given.value(extent)
            if draft.given.may_be_negative(extent):
                span = length_range(draft.given.largest(extent))
                others.append(PlaceStep(origin=START, register=register, value=value, range=span))
            elif lets_in(extent):
                # It may be computed from registers that are set right before it.
                others.append(SetStep(origin=START, values=((register, value),)))
            else:
                values.append((register, value))
    if values:
        yield SetStep(origin=START, values=tuple(values))
    yield from others


def _demands(draft: Draft, given_sizes: GivenSizes) -> Iterator[Step]:
    """Yield the tests that declared extents have values at the sizes of a step."""
    sizes = {name: draft.size(Register(register)) for name, register in given_sizes.registers.items()}
    for condition, words in given_sizes.demands.items():
        value = given_sizes.value(condition.index)
        used = {var.name for var in condition.index.variables()}
        demand = Demand(words, tuple((name, size) for name, size in sizes.items() if parameter_name(name) in used))
        if condition.relation is Relation.EQUAL:
            yield EqualStep(origin=START, left=value, right=Index.of(0), demand=demand)
            continue
        register = draft.register("size.demanded", most=LARGEST)
        span = PlaceRange(low=Index.of(0), high=Index.of(LARGEST), least=Index.of(0), most=None)
        yield PlaceStep(origin=START, register=register, value=value, range=span, demand=demand)


def state_values(draft: Draft) -> list[int]:
    """Return the values that are kept between steps, in order."""
    return [number for number, value in enumerate(draft.values) if value.is_state]


def reset_steps(draft: Draft) -> tuple[Step, ...]:
    """Return the steps that give the values that are kept between steps their initial contents."""
    return tuple(step for value in state_values(draft) for step in initial_steps_of(draft, value, START))


def roles_and_memory(
    draft: Draft, procedures: Sequence[Procedure], results: Sequence[int], store: WeightStore
) -> tuple[PlanValue, ...]:
    """Return the values with roles, and the memory of all but those in the arena (`NoMemory` for the time being)."""
    rewritten, used = written(procedures), touched(procedures)
    inputs = {number: at for at, number in enumerate(input_values(draft))}
    states = {number: at for at, number in enumerate(state_values(draft))}
    values: list[PlanValue] = []
    for value, drafted in enumerate(draft.values):
        role, memory = Role.TEMPORARY, NoMemory()
        variable = drafted.variable
        if value in results:
            role, memory = Role.OUTPUT, OutputMemory(results.index(value))
        elif value in inputs:
            role, memory = Role.INPUT, NoMemory() if rewritten >> value & 1 else InputMemory(inputs[value])
        elif value in states:
            role, memory = Role.STATE, StateMemory(states[value])
        elif drafted.data is not None:
            role = Role.CONSTANT
            if used >> value & 1:
                memory = WeightMemory(store.add(drafted.name, drafted.type, drafted.data, drafted.ops))
        elif variable is not None and not rewritten >> value & 1 and variable.initial is not None:
            role = Role.CONSTANT if variable.storage is Storage.CONSTANT else Role.WEIGHT
            if used >> value & 1:
                memory = WeightMemory(store.number_of(variable.name, variable.type, variable.initial))
        values.append(PlanValue(number=value, name=drafted.name, type=drafted.type, role=role, memory=memory))
    return tuple(values)
