"""Sizes of the steps in which an imported program is compared with its original."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.errors import OpenInferError
from openinfer.estimate.work import kernel_operations
from openinfer.ops.schema import Loops
from openinfer.validate import resolve
from openinfer.validate.kernels import call_of_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.importers.imported import ImportedModel
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.plugins.environment import Environment

    Sizes = Mapping[str, int]

KINDS = 4
"""Kinds of sizes, one after the other: no two equal, the largest of the budget, the least, and one more than these."""

GROWTH = 1 << 24
"""Bytes that the values of a step may have beyond those at the least sizes, where sizes are doubled: steps take longer
the more values they have, and errors that depend on sizes show at moderate ones."""

WORK = 1 << 28
"""Operations of loop programs that a step may take beyond those at the least sizes, likewise: about a second. Walks
through trees take thousands for each row, whose few values never reach `GROWTH`."""

BUDGET = 1 << 29
"""Bytes that the values of a step may have at other sizes than the least, by default. The process takes up to twice as
much, for scratch memory of kernels and for the original: about 1 GB."""


def is_largest(step: int) -> bool:
    """Whether a step has the largest sizes of the budget; the one before it has small ones, no two equal."""
    return step % KINDS == 1


def usual_steps(imported: ImportedModel) -> int:
    """Return how many steps compare a program at every kind of sizes, at least two."""
    return KINDS if free_sizes(imported) else 2


def free_sizes(imported: ImportedModel) -> list[str]:
    """Return the sizes that are not extents of states."""
    states = imported.report.starts.values()
    kept = {name for _, dims in states for dim in dims for name in symbolic.names(dim)}
    return [name for name in imported.model.sizevars if name not in kept]


def values_nbytes(program: ResolvedGraph) -> int:
    """Return the bytes of all values of a program: an executor keeps every temporary until it is closed."""
    return sum(variable.type.nbytes for variable in program.variables.values())


def loop_operations(program: ResolvedGraph, environment: Environment) -> int:
    """Return the operations of a program's operators that loop programs define."""
    schemas = ((op, environment.op(op.op)) for op in program.ops.values())
    loops = [(op, schema, schema.definition) for op, schema in schemas if isinstance(schema.definition, Loops)]
    counts = (kernel_operations(definition.define(call_of_node(op, schema))) for op, schema, definition in loops)
    return sum(count for count in counts if isinstance(count, int))


class StepPrograms:
    """An imported program at the sizes of steps: those of states stay, and none is above its limit.

    Attributes:
        budget: bytes that all values may have at other sizes than the least.
        too_large: bytes of the values at sizes that were passed over for them.
    """

    def __init__(
        self,
        imported: ImportedModel,
        environment: Environment,
        *,
        limits: Mapping[str, int] | None = None,
        budget: int | None = None,
    ) -> None:
        """Begin with no program.

        Args:
            limits: how large sizes may be.
            budget: bytes that all values may have at other sizes than the least; None: `BUDGET`.
        """
        self.budget = BUDGET if budget is None else budget
        self.too_large: dict[str, int] = {}
        self._imported, self._environment, self._limits = imported, environment, limits or {}
        self._resolved: dict[tuple[int, ...], ResolvedGraph] = {}

    def of(self, step: int) -> ResolvedGraph:
        """Return the program with the sizes of a step.

        Raises:
            ValidationError: the program is legal at none of the sizes of the step.
        """
        if is_largest(step):
            return self._largest
        chosen = [sizes for sizes in _choices(self._imported, step) if self._is_within(sizes)]
        *others, last = chosen or [self._imported.model.sizevars]
        for sizes in others:
            program = self._legal(sizes)
            if program is not None and not self._is_too_large(program):
                return program
        return self._at(last)

    def _is_too_large(self, program: ResolvedGraph) -> bool:
        nbytes = values_nbytes(program)
        if nbytes > self.budget:
            self.too_large[", ".join(f"{name}={size}" for name, size in program.sizes.items())] = nbytes
        return nbytes > self.budget

    def at_least(self) -> ResolvedGraph:
        """Return the program at the least sizes that operators accept: those of the container."""
        return self._at(self._imported.model.sizevars)

    def _at(self, sizes: Sizes) -> ResolvedGraph:
        key = tuple(sizes.values())
        if key not in self._resolved:
            imported = self._imported
            self._resolved[key] = resolve(imported.graph, imported.model, sizes=sizes, environment=self._environment)
        return self._resolved[key]

    def _legal(self, sizes: Sizes) -> ResolvedGraph | None:
        """Return the program at some sizes; None: it is not legal there."""
        try:
            return self._at(sizes)
        except OpenInferError:
            return None

    @cached_property
    def _largest(self) -> ResolvedGraph:
        """The program at sizes, no two equal where that is legal, that are doubled while the budget allows."""
        free = free_sizes(self._imported)
        program, least = self.of(0), self.of(2)
        most = min(values_nbytes(least) + GROWTH, self.budget)
        most_work = loop_operations(least, self._environment) + WORK
        while True:
            sizes = {name: size * (2 if name in free else 1) for name, size in program.sizes.items()}
            if sizes == program.sizes or not self._is_within(sizes):
                return program
            larger = self._legal(sizes)
            if larger is None or values_nbytes(larger) > most:
                return program
            if loop_operations(larger, self._environment) > most_work:
                return program
            program = larger

    def _is_within(self, sizes: Sizes) -> bool:
        return all(sizes[name] <= limit for name, limit in self._limits.items() if name in sizes)


def _choices(imported: ImportedModel, step: int) -> Iterator[Sizes]:
    """Yield sizes of the kind of a step, the best first."""
    sizes, free = imported.model.sizevars, free_sizes(imported)
    turn, kind = step // KINDS + 1, step % KINDS
    if kind == 0:
        yield {**sizes, **{name: sizes[name] * (turn + place) for place, name in enumerate(free)}}
        yield {**sizes, **{name: sizes[name] * turn for name in free}}
    if kind == KINDS - 1:
        yield {**sizes, **{name: sizes[name] + turn for name in free}}
        yield {**sizes, **{name: sizes[name] * (turn + 1) for name in free}}
        yield from ({**sizes, name: sizes[name] + turn} for name in free)
    yield sizes
