"""Plans of imported programs as C, and the choice between a loop of layers and layers one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import BUILTIN
from openinfer.errors import OpenInferError
from openinfer.ir.bulk import many_objects
from openinfer.plugins.selection import KernelTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.importers.imported import ImportedModel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plugins.environment import Environment

TARGET = "c"
"""Synth target that programs are planned for; it need not be installed."""

LEAST_COMPARED, MOST_COMPARED = 1 << 12, 1 << 22
"""Bytes of a loop's arena between which that of its layers is planned too: from about the memory of the smallest
microcontrollers to more than the largest have, where planning hundreds of layers would take long."""


def planned(imported: ImportedModel, limits: Mapping[str, int], environment: Environment) -> ExecutionPlan:
    """Return the plan at limits of sizes and indices, and at the least values of other sizes.

    No target has to be installed, so that an import writes the same program everywhere.

    Raises:
        OpenInferError: the program cannot be planned, such as for a cache without a limit.
    """
    from openinfer.plan import PlanOptions, limits_of, make_plan
    from openinfer.validate import resolve

    model, graph = imported.model, imported.graph
    sizes = {name: limits.get(name, size) for name, size in model.sizevars.items()}
    bounds = limits_of(graph, model, {name: bound for name, bound in limits.items() if name not in sizes})
    every = frozenset(dtype.name for dtype in BUILTIN)
    loops = KernelTable(TARGET, {}, every, computations=True, loop_programs=True, state=True)
    options = PlanOptions(overlaps=True, folded=True, limits=bounds.caches, given=bounds.sizes)
    with many_objects():
        resolved = resolve(graph, model, sizes=sizes, environment=environment)
        return make_plan(resolved, model, environment, loops, options)


def in_less_memory(
    rolled: ImportedModel, unrolled: Callable[[], ImportedModel], environment: Environment
) -> ImportedModel:
    """Return a program with a loop of layers, or the one without it where that takes less memory.

    What a loop hands on is a buffer of its own. Layers one after the other may overwrite what they read.
    """
    of_loop = _ram_nbytes(rolled, environment)
    if of_loop is None or not LEAST_COMPARED <= of_loop <= MOST_COMPARED:
        return rolled
    flat = unrolled()
    of_layers = _ram_nbytes(flat, environment)
    if of_layers is None or of_layers >= of_loop:
        return rolled
    loop = f"a loop of {rolled.report.layers} layers would take {of_loop:,} bytes of RAM as C, layers written out take"
    return replace(flat, report=replace(flat.report, notes=(*flat.report.notes, f"{loop} {of_layers:,}")))


def _ram_nbytes(imported: ImportedModel, environment: Environment) -> int | None:
    """Return the bytes of intermediate results and states; None where the program cannot be planned."""
    try:
        plan = planned(imported, {}, environment)
    except OpenInferError:
        return None
    return plan.arena_nbytes + plan.state_nbytes
