"""Sizes as people read them: symbols that program text has no form for are letters, explained after the formula."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.diagnostics import shortened
from openinfer.dims import Dim, Let, LetKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from openinfer.affine.index import Atom
    from openinfer.dims import Condition, Size

LONGEST = 240
"""Characters of a formula in a message, so that the advice after it is not cut off."""

_LETTERS = "pqrsuvw"


def size_in_words(size: Size) -> str:
    """Return a size as a formula, such as ``n - max(0, p), where p is n - m, plus n where that is below 0``."""
    if not isinstance(size, Dim):
        return str(size)
    formula = _Formula(size.index.variables())
    return formula.explained(formula.text(size.index))


def condition_in_words(condition: Condition) -> str:
    """Return a condition as a formula, explained as that of a size is."""
    formula = _Formula(condition.index.variables())
    left, right = map(formula.text, condition.sides)
    return formula.explained(f"{left} {condition.relation.value} {right}")


class _Formula:
    """Texts of sizes that share letters."""

    def __init__(self, variables: Collection[Var]) -> None:
        self._taken = {name for var in variables for name in _names(var)}
        self._letters: dict[Let, str] = {}
        self._meanings: list[str] = []

    def text(self, index: Index) -> str:
        """Return an index, what is added first."""
        terms = sorted(self._plain(index).terms, key=lambda term: term[1] < 0)
        return str(Index(tuple(terms)))

    def explained(self, text: str) -> str:
        """Return a text that is not too long, with what its letters are."""
        where = f", where {' and '.join(self._meanings)}" if self._meanings else ""
        return shortened(text, LONGEST) + where

    def _plain(self, index: Index) -> Index:
        """Return an index with letters for symbols."""
        total = Index()
        for atoms, factor in index.terms:
            product = Index.of(factor)
            for atom in atoms:
                product = product * self._atom(atom)
            total = total + product
        return total

    def _atom(self, atom: Atom) -> Index:
        if isinstance(atom, Let):
            return self._symbol(atom)
        if isinstance(atom, Var):
            return Index.of(atom)
        of, by = self._plain(atom.of), self._plain(atom.by)
        return Index.of(Quotient(of, by) if isinstance(atom, Quotient) else Remainder(of, by))

    def _symbol(self, let: Let) -> Index:
        if let.kind in (LetKind.MAX, LetKind.MIN, LetKind.SUM):
            parts = [self.text(part) for part in let.parts]
            named = f"({', '.join(parts)})" if let.kind is LetKind.SUM else f"{let.kind.value}({', '.join(parts)})"
            return Index.of(Var(named))
        if let.kind not in _MEANINGS:
            return Index.of(Var(let.written))
        if let not in self._letters:
            letter = next(self._free_letters())
            self._letters[let] = letter
            self._meanings.append(f"{letter} is {_MEANINGS[let.kind].format(*map(self.text, let.parts))}")
        return Index.of(Var(self._letters[let]))

    def _free_letters(self) -> Iterator[str]:
        used = {*self._taken, *self._letters.values()}
        yield from (letter for letter in _LETTERS if letter not in used)
        number = 2
        while True:
            yield from (name for letter in _LETTERS if (name := f"{letter}{number}") not in used)
            number += 1


_MEANINGS = {
    LetKind.FROM_END: "{0}, plus {1} where that is below 0",
    LetKind.COMMON: "what {0} and {1} broadcast to",
    LetKind.STRIDE: "0 where {0} is 1, else 1",
}
"""What symbols are, over the texts of their parts."""


def _names(var: Var) -> Iterator[str]:
    if isinstance(var, Let):
        yield from (name for part in var.parts for inner in part.variables() for name in _names(inner))
    else:
        yield var.name
