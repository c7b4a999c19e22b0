"""Mixed-radix numbers: indices whose variables are digits, so that each combination of their values has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine.digits import split
from openinfer.affine.index import Index, Var

if TYPE_CHECKING:
    from collections.abc import Iterable


def is_mixed_radix(index: Index, variables: Iterable[Var]) -> bool | None:
    """Return whether an index tells every combination of values of the variables in it apart.

    That is certain where each variable, or each digit of one, steps over all that those with shorter steps reach. None:
    the index is not linear in them, so that this rule does not decide.
    """
    of_digits = split(index)
    split_up = index.variables() - of_digits.variables()
    every = [*(var for var in variables if var not in split_up), *(of_digits.variables() - index.variables())]
    index = of_digits
    digits: list[tuple[int, str, Var]] = []
    for var in every:
        factor = index.coefficient(var)
        if factor is None:
            return None
        if factor and var.extent not in (0, 1):
            digits.append((abs(factor), var.name, var))
    reach = Index()
    for stride, name, var in sorted(digits, key=lambda digit: digit[:2]):
        if not reach.is_within(0, stride):
            return False
        reach = reach + Var(f"{name}'", var.extent) * stride
    return True
