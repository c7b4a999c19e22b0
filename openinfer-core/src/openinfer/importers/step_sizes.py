"""Sizes of the steps in which an imported program is compared with its original."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.errors import OpenInferError
from openinfer.validate import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.importers.imported import ImportedModel
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment

    Sizes = Mapping[str, int]

KINDS = 4
"""Kinds of sizes, one after the other: no two equal, the largest of the budget, the least, and one more than these."""

BUDGET = 1 << 24
"""Bytes that the values of a step may have beyond those at the least sizes."""


def is_largest(step: int) -> bool:
    """Whether a step has the largest sizes of the budget; the one before it has small ones, no two equal."""
    return step % KINDS == 1


def usual_steps(imported: ImportedModel) -> int:
    """Return how many steps compare a program at every kind of sizes, at least two."""
    return KINDS if _free(imported) else 2


def program_of_step(
    imported: ImportedModel, step: int, limits: Mapping[str, int], environment: Environment
) -> ResolvedGraph:
    """Return the program with the sizes of a step; those of states stay, and none is above its limit.

    Raises:
        ValidationError: the program is legal at none of the sizes of the step.
    """
    kind = step % KINDS
    if is_largest(step):
        return _largest(imported, limits, environment)
    *others, last = [sizes for sizes in _choices(imported, step, kind) if _is_within(sizes, limits)] or [
        least(imported)
    ]
    for sizes in others:
        try:
            return resolve(imported.graph, imported.model, sizes=sizes, environment=environment)
        except OpenInferError:
            continue
    return resolve(imported.graph, imported.model, sizes=last, environment=environment)


def least(imported: ImportedModel) -> Sizes:
    """Return the least sizes that operators accept: those of the container."""
    return imported.model.sizevars


def _choices(imported: ImportedModel, step: int, kind: int) -> Iterator[Sizes]:
    """Yield sizes of a kind, the best first."""
    sizes, free = least(imported), _free(imported)
    turn = step // KINDS + 1
    if kind == 0:
        yield {**sizes, **{name: sizes[name] * (turn + place) for place, name in enumerate(free)}}
        yield {**sizes, **{name: sizes[name] * turn for name in free}}
    if kind == KINDS - 1:
        yield {**sizes, **{name: sizes[name] + turn for name in free}}
        yield {**sizes, **{name: sizes[name] * (turn + 1) for name in free}}
    yield sizes


def _largest(imported: ImportedModel, limits: Mapping[str, int], environment: Environment) -> ResolvedGraph:
    """Return the program at sizes, no two equal where that is legal, that are doubled while the budget allows."""
    program, free = program_of_step(imported, 0, limits, environment), _free(imported)
    most = _nbytes(program_of_step(imported, 2, limits, environment)) + BUDGET
    while True:
        sizes = {name: size * (2 if name in free else 1) for name, size in program.sizes.items()}
        if sizes == program.sizes or not _is_within(sizes, limits):
            return program
        try:
            larger = resolve(imported.graph, imported.model, sizes=sizes, environment=environment)
        except OpenInferError:
            return program
        if _nbytes(larger) > most:
            return program
        program = larger


def _free(imported: ImportedModel) -> list[str]:
    """Return the sizes that are not extents of states."""
    states = imported.report.starts.values()
    kept = {name for _, dims in states for dim in dims for name in symbolic.names(dim)}
    return [name for name in imported.model.sizevars if name not in kept]


def _is_within(sizes: Sizes, limits: Mapping[str, int]) -> bool:
    return all(sizes[name] <= limit for name, limit in limits.items() if name in sizes)


def _nbytes(program: ResolvedGraph) -> int:
    return sum(variable.type.nbytes for variable in program.variables.values())
