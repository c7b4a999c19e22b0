"""Making a plan: lowering, dead steps away, fusion, passes of plugins, live ranges, arena."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.arch import TargetInfo
from openinfer.diagnostics import Diagnostic
from openinfer.errors import SynthesisError
from openinfer.ir.resolved import Filled, Storage
from openinfer.plan.accesses import Accesses, mask, written
from openinfer.plan.arena import placed
from openinfer.plan.arrangement import arranged
from openinfer.plan.dead_steps import reached, without_dead_steps
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.findings import about
from openinfer.plan.fusion import Fusion, fuse
from openinfer.plan.liveness import Liveness
from openinfer.plan.lowering import lower
from openinfer.plan.memory import (
    initial_steps,
    input_values,
    output_copies,
    roles_and_memory,
    touched_tables,
)
from openinfer.plan.passes import with_passes
from openinfer.plan.steps import Procedure
from openinfer.plan.tables import weight_table
from openinfer.plan.values import PlanInput, PlanOutput
from openinfer.plan.weights import WeightStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model
    from openinfer.plan.lowering import Draft
    from openinfer.plan.steps import Step
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.selection import KernelTable


def make_plan(
    resolved: ResolvedGraph,
    model: Model,
    environment: Environment,
    table: KernelTable,
    *,
    epilogues: bool = True,
    machine: TargetInfo | None = None,
) -> ExecutionPlan:
    """Return the plan of a program for the target of ``table``.

    Args:
        epilogues: whether the target's kernels carry out elementwise operators on their results.
        machine: what layouts and schedules are chosen for; by default one of which nothing is known.

    Raises:
        SynthesisError: something in the program cannot be carried out on the target; it names the line.
    """
    draft = lower(resolved, model, environment, table)
    reachable = reached(draft.procedures)
    changed = written(reachable)
    names = _output_names(draft, resolved, changed)
    results, copies = output_copies(draft, names, changed)
    wanted = mask(results)
    procedures = _with_start(reachable, copies)
    procedures, liveness = without_dead_steps(procedures, wanted)
    changed = written(procedures)
    needed = liveness.at_start
    procedures = _with_start(procedures, list(initial_steps(draft, needed, changed)))
    procedures = _fused(draft, procedures, wanted, epilogues=epilogues)
    procedures = with_passes(procedures, tuple(value.type for value in draft.values), wanted, environment)
    procedures, _ = without_dead_steps(procedures, wanted)
    store = WeightStore(model)
    values = roles_and_memory(draft, procedures, results, store)
    read = touched_tables(procedures)
    tables = [weight_table(use, model, store) for use in draft.tables.values() if use.number in read]
    made = arranged(procedures, values, store.weights, tables, machine or TargetInfo())
    values, arena_nbytes = placed(made.values, made.procedures, Liveness(made.procedures, wanted))
    return ExecutionPlan(
        target=table.target,
        inputs=_inputs(draft, needed),
        outputs=tuple(PlanOutput(name=n, type=values[v].type, value=v) for n, v in zip(names, results, strict=True)),
        values=values,
        weights=made.weights,
        tables=made.tables,
        procedures=made.procedures,
        arena_nbytes=arena_nbytes,
    )


def plan_findings(
    resolved: ResolvedGraph, model: Model, environment: Environment, table: KernelTable
) -> tuple[Diagnostic, ...]:
    """Return why there is no plan of a program for the target of ``table``, every statement that is refused.

    Raises:
        SynthesisError: the reason has no place in the program.
    """
    try:
        make_plan(resolved, model, environment, table)
    except SynthesisError as error:
        found = tuple(finding for finding in error.diagnostics if isinstance(finding, Diagnostic))
        if not found:
            raise
        return found
    return ()


def _output_names(draft: Draft, resolved: ResolvedGraph, changed: int) -> tuple[str, ...]:
    """Return what ``entry`` returns, else every volatile that the program writes."""
    if draft.returned:
        for name in draft.returned:
            if name not in resolved.variables:
                raise about("unsupported", f"`return {name}`: an entry of a prefix table cannot be a result")
            if name not in draft.numbers:
                draft.add_variable(resolved.variables[name])
        return tuple(draft.returned)
    volatile = [name for name, variable in resolved.variables.items() if variable.storage is Storage.VOLATILE]
    found = tuple(name for name in volatile if name in draft.numbers and changed >> draft.numbers[name] & 1)
    if not found:
        hint = "end block entry with `return NAME;`, or write a volatile variable"
        raise about("no-outputs", "the program has no results: it returns nothing and writes no volatile", hint)
    return found


def _with_start(procedures: Sequence[Procedure], steps: Sequence[Step]) -> tuple[Procedure, ...]:
    """Return the procedures with steps put before those of the last one, where the program starts."""
    start = procedures[-1]
    return (*procedures[:-1], Procedure(start.name, (*steps, *start.steps)))


def _fused(draft: Draft, procedures: Sequence[Procedure], wanted: int, *, epilogues: bool) -> tuple[Procedure, ...]:
    types = tuple(value.type for value in draft.values)
    around = Fusion(types, Liveness(procedures, wanted), Accesses(procedures), epilogues)
    return fuse(procedures, around)


def _inputs(draft: Draft, needed: int) -> tuple[PlanInput, ...]:
    found: list[PlanInput] = []
    for number in input_values(draft):
        value = draft.values[number]
        initial = value.variable.initial if value.variable is not None else None
        default = initial.value if isinstance(initial, Filled) else None
        read = bool(needed >> number & 1)
        found.append(PlanInput(name=value.name, type=value.type, value=number, default=default, needed=read))
    return tuple(found)
