"""Loops over what blocks leave of a run-time extent: they go on counting where the blocks end.

An address after ``n // 8`` blocks of 8 is then one variable below ``n``, for which an interval is a bound. The sum of
the blocks' end and a count from 0 has none: intervals do not relate it to ``n``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var
from openinfer.dims import Condition, Relation
from openinfer.loops import For, If, Let, Load, Set, Store
from openinfer.loops.substitution import substituted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops import Kernel, Statement


@dataclass(frozen=True, slots=True)
class Rest:
    """A loop that counts from ``first`` up to the extent of its variable."""

    var: Var
    first: Index
    body: tuple[Statement, ...]


def followed(kernel: Kernel) -> tuple[Var, ...]:
    """Return the parameters whose values the analyser Eva has to know: what is left of a size after a place depends
    on them, which may be a bound of another parameter or of a loop."""
    bounds = [var.extent for var in kernel.parameters if isinstance(var.extent, Index)]
    names = {var.name for bound in bounds for var in bound.variables()}
    names |= {atom.name for extent in _extents(kernel.body) for atom in _subtracted(extent)}
    names |= {atom.name for load in _loaded(kernel.body) for atom in _walked_back(load.address)}
    names |= {var.name for var in relations(kernel).values()}
    return tuple(var for var in kernel.parameters if var.name in names)


def relations(kernel: Kernel) -> dict[Condition, Var]:
    """Return what holds wherever a loop runs, with the parameter that is its extent: where its last element lies.

    A length and a place that are computed apart are parameters whose relation intervals do not know.
    """
    lengths_by_condition: dict[Condition, Var] = {}
    parameters = {Index.of(var): var for var in kernel.parameters}
    for load in _loaded(kernel.body):
        loops = {var: load.address.coefficient(var) for var in load.address.variables() - set(kernel.parameters)}
        lengths = {var: parameters[var.extent] for var in loops if var.extent in parameters}
        places = load.address.variables().intersection(kernel.parameters)
        others = [var.extent for var in loops if var not in lengths]
        is_plain = all(loops.values()) and all(isinstance(extent, int) for extent in others)
        if len(lengths) != 1 or not places or load.guards or not is_plain:
            continue
        if load.address.is_within(0, load.buffer.size):  # bounds of parameters say it
            continue
        ((loop, length),) = lengths.items()
        last = load.address.substituted({loop: Index.of(length) - 1})
        room = last if (loops[loop] or 0) < 0 else Index.of(load.buffer.size) - 1 - last
        for var in loops.keys() - lengths.keys():
            is_least = (room.coefficient(var) or 0) > 0
            room = room.substituted({var: Index() if is_least else Index.of(var.extent or 1) - 1})
        lengths_by_condition[Condition(room, Relation.AT_LEAST)] = length
    return lengths_by_condition


def _extents(body: Sequence[Statement]) -> Iterator[Index]:
    """Yield the extents of loops that are known at run time only."""
    for statement in body:
        match statement:
            case For(var, _, inner):
                if isinstance(var.extent, Index):
                    yield var.extent
                yield from _extents(inner)
            case If(_, inner):
                yield from _extents(inner)
            case _:
                pass


def _subtracted(extent: Index) -> Iterator[Var]:
    """Yield the variables that an extent is less by, also those within quotients."""
    for atoms, factor in extent.terms:
        for atom in atoms:
            if isinstance(atom, Var):
                yield from (atom,) if factor < 0 else ()
            else:
                yield from _subtracted(atom.of)


def _loaded(body: Sequence[Statement]) -> Iterator[Load]:
    """Yield the loads that no test in front of them keeps from running."""
    for statement in body:
        match statement:
            case For(_, _, inner):
                yield from _loaded(inner)
            case Let(value=value) | Set(value=value) | Store(value=value):
                yield from (leaf for leaf in value.leaves if isinstance(leaf, Load))
            case _:
                pass


def _walked_back(address: Index) -> frozenset[Var]:
    """Return the variables that an address begins at from which a loop walks back, whose extent depends on them."""
    loops = [var for var in address.variables() if isinstance(var.extent, Index)]
    extents = [var.extent for var in loops if (address.coefficient(var) or 0) < 0 and isinstance(var.extent, Index)]
    return address.variables().intersection(*[extent.variables() for extent in extents]) if extents else frozenset()


def counted_on(var: Var, body: Sequence[Statement]) -> Rest | None:
    """Return the remainder loop after blocks, whose start is never negative; None for any other loop."""
    if not isinstance(var.extent, Index):
        return None
    taken = Index(tuple((atoms, -factor) for atoms, factor in var.extent.terms if factor < 0 and atoms))
    if not taken.terms or not all(len(atoms) == 1 and isinstance(atoms[0], Quotient) for atoms, _ in taken.terms):
        return None
    low = taken.interval.low
    if low is None:
        return None
    # `(8 - n) // 8` blocks are written `-n // 8 + 1`: without its constant the end of the blocks may lie below 0.
    first = taken + max(0, -low)
    absolute = Var(var.name, var.extent + first)
    return Rest(absolute, first, substituted(body, {var: absolute - first}))
