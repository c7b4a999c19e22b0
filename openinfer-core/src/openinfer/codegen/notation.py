"""Indices of loop programs as text of a language of the C family."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.affine import Within
    from openinfer.affine.index import Atom


def c_notation(variable: Callable[[Var], str]) -> Notation:
    """Return how C writes indices over signed variables: it rounds toward zero, which differs below zero."""
    return Notation(
        variable=variable,
        quotient=lambda of, by: f"(({of}) / ({by}))",
        remainder=lambda of, by: f"(({of}) % ({by}))",
        quotient_down=lambda of, by: f"(({of}) >= 0 ? ({of}) / ({by}) : -((({by}) - 1 - ({of})) / ({by})))",
        remainder_down=lambda of, by: f"((({of}) % ({by}) + ({by})) % ({by}))",
    )


@dataclass(frozen=True, slots=True)
class Notation:
    """How a language writes indices.

    Attributes:
        variable: the name of a variable.
        quotient, remainder: ``a / b`` rounded toward zero and ``a % b`` with the sign of a, which is 0 or more, from
            the texts of a and b.
        quotient_down, remainder_down: the quotient rounded down and the remainder that is never negative, for any a.
    """

    variable: Callable[[Var], str]
    quotient: Callable[[str, str], str]
    remainder: Callable[[str, str], str]
    quotient_down: Callable[[str, str], str]
    remainder_down: Callable[[str, str], str]

    def index(self, index: Index) -> str:
        """Return an index as an expression of signed integers."""
        if not index.terms:
            return "0"
        first, *others = [self._term(atoms, factor) for atoms, factor in index.terms]
        return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)

    def extent(self, var: Var) -> str:
        """Return the number of values of a variable."""
        return self.index(var.extent) if isinstance(var.extent, Index) else str(var.extent)

    def tests(self, tests: Sequence[Within], names: Mapping[Index, str] = MappingProxyType({})) -> str:
        """Return the tests that are not certain to hold, ``true`` where all are. ``names`` has variables of indices."""
        texts: list[str] = []
        for test in tests:
            low, slack = test.index.interval.low, (test.extent - 1 - test.index).interval.low
            index = names.get(test.index) or self.index(test.index)
            texts += [f"{index} >= 0"] if low is None or low < 0 else []
            texts += [f"{index} < {self.index(test.extent)}"] if slack is None or slack < 0 else []
        return " && ".join(texts) or "true"

    def _term(self, atoms: tuple[Atom, ...], factor: int) -> str:
        product = " * ".join(map(self._atom, atoms))
        if not atoms:
            return str(factor)
        if abs(factor) != 1:
            return f"{factor} * {product}"
        return product if factor > 0 else f"-{product}"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Var):
            return self.variable(atom)
        of, by = self.index(atom.of), self.index(atom.by)
        low = atom.of.interval.low
        if low is not None and low >= 0:
            return (self.quotient if isinstance(atom, Quotient) else self.remainder)(of, by)
        return (self.quotient_down if isinstance(atom, Quotient) else self.remainder_down)(of, by)
