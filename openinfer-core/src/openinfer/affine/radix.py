"""Mixed-radix numbers: indices whose variables are digits, so that each combination of their values has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from openinfer.affine.digits import split
from openinfer.affine.index import Index, Var, variables_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.affine.index import Atom


def is_mixed_radix(index: Index, variables: Iterable[Var]) -> bool | None:
    """Return whether an index tells every combination of values of the variables in it apart.

    That is certain where each variable, or each digit of one, steps over all that those with shorter steps reach. Steps
    and extents may depend on parameters, as those of a tensor in row-major order do. None: the index is not linear in
    the variables, so that this rule does not decide.
    """
    of_digits = split(index)
    split_up = index.variables() - of_digits.variables()
    every = [*(var for var in variables if var not in split_up), *(of_digits.variables() - index.variables())]
    index = of_digits
    digits: list[tuple[int, str, Var]] = []
    for var in every:
        factor = index.coefficient(var)
        if factor is None:
            return _is_row_major(index, every)
        if factor and var.extent not in (0, 1):
            digits.append((abs(factor), var.name, var))
    reach = Index()
    for stride, name, var in sorted(digits, key=lambda digit: digit[:2]):
        if not reach.is_within(0, stride):
            return False
        reach = reach + Var(f"{name}'", var.extent) * stride
    return True


def _is_row_major(index: Index, variables: Iterable[Var]) -> Literal[True] | None:
    """Return True if each variable steps over a multiple of the places of those with shorter steps, else None."""
    inside = [var for var in dict.fromkeys(variables) if var in index.variables() and var.extent != 1]
    digits: list[tuple[Index, Index]] = []
    for var in inside:
        step = _step(index, var, inside)
        if step is None or var.extent is None:
            return None
        digits.append((step, Index.of(var.extent)))
    places = Index.of(1)
    for step, extent in sorted(digits, key=lambda digit: _size(digit[0])):
        if not _is_multiple(step, places):
            return None
        places = step * extent
    return True


def _step(index: Index, var: Var, variables: Iterable[Var]) -> Index | None:
    """Return the polynomial over parameters that a variable is multiplied by; None where there is none."""
    found: list[tuple[tuple[Atom, ...], int]] = []
    for atoms, factor in index.terms:
        if not any(var in variables_of(atom) for atom in atoms):
            continue
        others = tuple(atom for atom in atoms if atom != var)
        if len(others) != len(atoms) - 1 or any(not isinstance(atom, Var) or atom in variables for atom in others):
            return None
        found.append((others, factor))
    return Index(tuple(found))


def _size(step: Index) -> tuple[int, int]:
    """Return what orders steps: those over more parameters are longer."""
    return max(((len(atoms), factor) for atoms, factor in step.terms), default=(0, 0))


def _is_multiple(step: Index, places: Index) -> bool:
    """Return whether a step is a positive multiple of a number of places, whatever the parameters."""
    (_, factor), (_, of) = _size(step), _size(places)
    return of > 0 and factor > 0 and factor % of == 0 and places * (factor // of) == step
