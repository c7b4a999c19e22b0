"""Indices of loop programs as GLSL: signed arithmetic in 32 bits, in which sizes and strides are numbers of the run.

A shader is thus one text for tensors of all sizes: what differs are the numbers that it is run with.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var
from openinfer.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Within
    from openinfer.affine.index import Atom, Remainder

_OWN_NAME = re.compile(r"[itxy]\d+(_\d+)?")
"""Names that definitions of operators are given: words that the rest of the source does not use."""

_LIMIT = 1 << 31

HELPERS = """int floor_quotient(int of, int by) {
    return of >= 0 ? of / by : -((by - 1 - of) / by);
}
int floor_remainder(int of, int by) {
    return of - by * floor_quotient(of, by);
}
"""


def name_text(prefix: str, name: str) -> str:
    """Return a name of the loop program that is neither a word of GLSL nor one of the rest of a shader."""
    return name if _OWN_NAME.fullmatch(name) else f"{prefix}_{name}"


def counter_text(var: Var) -> str:
    """Return the name of a loop variable."""
    return name_text("i", var.name)


class Numbers:
    """The numbers of a shader, called ``n0``, ``n1``, ...; parameters of the loop program are among them by name."""

    def __init__(self, parameters: Sequence[Var], most_pushed: int) -> None:
        self._most_pushed = most_pushed
        self._named: list[int | str] = []
        self.needs_helpers = False
        self._parameters = {var: self._next(var.name) for var in parameters}
        self._known: dict[tuple[Index, bool], str] = {}
        self._factors: dict[tuple[str, tuple[Atom, ...], int], str] = {}
        self._atoms: dict[tuple[Atom, bool], str] = {}

    @property
    def values(self) -> list[int | str]:
        """What a shader is run with: a number for each name, or equal ones once where only then they can be pushed.

        Always once, the text would depend on which sizes of tensors happen to be equal.
        """
        distinct = list(dict.fromkeys(self._named))
        return distinct if len(distinct) <= self._most_pushed < len(self._named) else self._named

    @property
    def is_pushed(self) -> bool:
        """Whether they are push constants, or too many for them."""
        return len(self.values) <= self._most_pushed

    def declared(self, binding: int) -> str:
        """Return the declaration of the numbers: push constants, or items of a buffer with this binding."""
        if self.is_pushed:
            return f"layout(push_constant) uniform Numbers {{ int numbers[{len(self.values)}]; }};"
        return f"layout(std430, set = 0, binding = {binding}) readonly buffer Numbers {{ int numbers[]; }};"

    def named(self) -> list[str]:
        """Return the statements that name them: some drivers would read them in every iteration of a loop otherwise."""
        values = self.values
        places = range(len(values)) if values is self._named else map(values.index, self._named)
        return [f"int n{number} = numbers[{position}];" for number, position in enumerate(places)]

    def number(self, value: int) -> str:
        """Return the name of a new number."""
        return self._next(value)

    def named_number(self, name: str) -> str:
        """Return the name of a new parameter, which the host sets by ``name``."""
        return self._next(name)

    def extent(self, var: Var) -> str:
        """Return how many values a loop variable has, as an expression."""
        return self.number(var.extent) if isinstance(var.extent, int) else self.text(Index.of(var.extent or 0))

    def _next(self, value: int | str) -> str:
        self._named.append(value)
        return f"n{len(self._named) - 1}"

    def text(self, index: Index, *, fixed: bool = False, of: str = "") -> str:
        """Return an index as an expression of ``int``; equal ones have one text.

        ``fixed`` writes its numbers out: those of a schedule, which are the same for tensors of all sizes. ``of`` is
        the buffer that it is an address of: its strides have one number each, however many addresses have them.

        Raises:
            UnsupportedError: it may have values that 32 bits do not hold.
        """
        key = (index, fixed)
        if key not in self._known:
            _need_32_bits(index)
            self._known[key] = _sum([self._term(atoms, factor, fixed=fixed, of=of) for atoms, factor in index.terms])
        return self._known[key]

    def tests(self, tests: Sequence[Within], *, fixed: bool = False) -> str:
        """Return the conjunction of what is not certain of tests."""
        texts: list[str] = []
        for test in tests:
            low, slack = test.index.interval.low, (test.extent - 1 - test.index).interval.low
            index = self.text(test.index, fixed=fixed)
            texts += [f"{index} >= 0"] if low is None or low < 0 else []
            texts += [f"{index} < {self.text(test.extent, fixed=fixed)}"] if slack is None or slack < 0 else []
        return " && ".join(texts) or "true"

    def _term(self, atoms: tuple[Atom, ...], factor: int, *, fixed: bool, of: str) -> str:
        texts = [self._atom(atom, fixed=fixed) for atom in atoms]
        if abs(factor) == 1 and atoms:
            return ("-" if factor < 0 else "") + " * ".join(texts)
        return " * ".join([str(factor) if fixed else self._factor(atoms, factor, of), *texts])

    def _factor(self, atoms: tuple[Atom, ...], factor: int, of: str) -> str:
        if not of:
            return self.number(factor)
        key = (of, atoms, factor)
        if key not in self._factors:
            self._factors[key] = self.number(factor)
        return self._factors[key]

    def _atom(self, atom: Atom, *, fixed: bool) -> str:
        if isinstance(atom, Var):
            return self._parameters.get(atom) or counter_text(atom)
        key = (atom, fixed)
        if key not in self._atoms:
            self._atoms[key] = self._divided(atom, fixed=fixed)
        return self._atoms[key]

    def _divided(self, atom: Quotient | Remainder, *, fixed: bool) -> str:
        """Return a quotient rounded down, or its remainder: GLSL says nothing of those of negative numbers."""
        of, by = self.text(atom.of, fixed=fixed), self.text(atom.by, fixed=fixed)
        low = atom.of.interval.low
        is_quotient = isinstance(atom, Quotient)
        if low is not None and low >= 0:
            return f"int(uint({of}) {'/' if is_quotient else '%'} uint({by}))"
        self.needs_helpers = True
        return f"{'floor_quotient' if is_quotient else 'floor_remainder'}({of}, {by})"


def _sum(terms: Sequence[str]) -> str:
    if not terms:
        return "0"
    first, *others = terms
    return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)


def _need_32_bits(index: Index) -> None:
    bounds = index.interval
    if any(end is not None and not -_LIMIT <= end < _LIMIT for end in (bounds.low, bounds.high)):
        raise UnsupportedError(f"an index up to {bounds.high}: kernels of this device count in 32 bits")
