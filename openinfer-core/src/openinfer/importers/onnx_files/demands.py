"""What operators demand of the sizes of a model: bounds, facts, and the least sizes that meet them."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.dims import Condition, Let, Relation, sources
from openinfer.importers.onnx_files.sizes import divisors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine.index import Atom
    from openinfer.dims import Space

LARGEST = (1 << 31) - 1
"""Largest size: it tells open ends of slices, which exporters write as this number, from places."""

MOST_VALUES = 1 << 12
"""Values of a size that are compared with an equation: one that repeats itself later counts as fixing the size."""

MOST_ROUNDS = 64
"""How often a size is raised until all facts hold."""


def take(space: Space, guard: Condition) -> None:
    """Take in a guard that the program relies on: as the bound of a size where it is one, else as a fact."""
    name = _only_name(guard.index)
    if name is not None and guard.relation is Relation.AT_LEAST:
        bounds = space.declared(name)
        low, high = bounds.low or 0, LARGEST if bounds.high is None else bounds.high
        if _rises(guard.index):
            space.size(name, _least(guard, name, low, high), bounds.high)
            return
        if _rises(-guard.index):
            least_broken = _least(guard.negated(), name, low, high)
            space.size(name, bounds.low, least_broken - 1)
            return
    space.assume(guard)


def is_bound(guard: Condition) -> bool:
    """Whether a guard is the least or the largest value of one size."""
    is_order = guard.relation is Relation.AT_LEAST and _only_name(guard.index) is not None
    return is_order and (_rises(guard.index) or _rises(-guard.index))


def _only_name(index: Index) -> str | None:
    names = sources(index)
    return next(iter(names)) if len(names) == 1 else None


def _rises(index: Index) -> bool:
    """Whether an index never gets less where a size grows, by its form."""
    return all(factor > 0 and all(map(_atom_rises, atoms)) for atoms, factor in index.terms if atoms)


def _atom_rises(atom: Atom) -> bool:
    if isinstance(atom, Let):
        return all(map(_rises, atom.parts))
    if isinstance(atom, Quotient):
        return atom.by.constant is not None and _rises(atom.of) and _is_never_negative(atom.of)
    return isinstance(atom, Var)


def _is_never_negative(index: Index) -> bool:
    return all(factor > 0 for _, factor in index.terms)


def _least(guard: Condition, name: str, low: int, high: int) -> int:
    """Return the least value from ``low`` on at which a guard holds that stays true once it is: none up to ``high``
    gives the one after it."""
    if guard.holds({name: low}):
        return low
    if not guard.holds({name: high}):
        return high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if guard.holds({name: middle}) else (middle, high)
    return high


def fixing(guard: Condition, space: Space) -> Condition | None:
    """Return the equation in a guard that leaves no freedom: a number for a size, or one size for two; None for others.

    ``batch*T == T`` is ``batch == 1`` where T is never 0.
    """
    if guard.relation is not Relation.EQUAL:
        return None
    equation = Condition(_without_common_atoms(guard.index, space), Relation.EQUAL)
    if any(isinstance(atom, Remainder) for atoms, _ in equation.index.terms for atom in atoms):
        return None
    name = _only_name(equation.index)
    return equation if name is None or len(_solutions(equation, name, space)) < 2 else None


def _without_common_atoms(index: Index, space: Space) -> Index:
    """Return an index without factors of all of its terms that are never 0."""
    for atom in index.terms[0][0]:
        is_common = all(atom in atoms for atoms, _ in index.terms)
        if is_common and space.certain(Condition(Index.of(atom), Relation.UNEQUAL)):
            return _without_common_atoms(index.divided(Index.of(atom))[0], space)
    return index


def _solutions(equation: Condition, name: str, space: Space) -> list[int]:
    """Return the values of a size, over two periods, at which an equation holds.

    Quotients by numbers repeat after the product of the divisors, but for a multiple of the size.
    """
    period = min(prod(divisors(equation.index)), MOST_VALUES)
    low = space.declared(name).low or 0
    return [value for value in range(low, low + 2 * period + 2) if equation.holds({name: value})]


def least_sizes(space: Space, least: Mapping[str, int]) -> dict[str, int] | None:
    """Return sizes from ``least`` on, each raised as little as bounds and facts demand; None: none are near."""
    sizes = {name: max(value, space.declared(name).low or 0) for name, value in least.items()}
    for _ in range(MOST_ROUNDS):
        broken = next((fact for fact in space.facts if not fact.holds(sizes)), None)
        if broken is None:
            return sizes if all(value <= _highest(space, name) for name, value in sizes.items()) else None
        raised = [pair for name in sorted(sources(broken.index)) if (pair := _raised(broken, name, sizes))]
        if not raised:
            return None
        name, value = min(raised, key=lambda pair: pair[1] - sizes[pair[0]])
        sizes[name] = value
    return None


def _highest(space: Space, name: str) -> int:
    high = space.declared(name).high
    return LARGEST if high is None else high


def _raised(fact: Condition, name: str, sizes: Mapping[str, int]) -> tuple[str, int] | None:
    """Return a size and its next value at which a fact holds, the others being as they are."""
    values = (sizes[name] + more for more in range(1, MOST_VALUES))
    return next(((name, value) for value in values if fact.holds({**sizes, name: value})), None)
