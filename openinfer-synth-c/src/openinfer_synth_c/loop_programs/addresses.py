"""Names of a loop program in C, and its indices, addresses and tests as expressions of type ``ptrdiff_t``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Var

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Within
    from openinfer.affine.index import Atom
    from openinfer.loops import Buffer

_OWN_NAME = re.compile(r"i\d+(_\d+)?")
"""Names of variables that definitions of operators are given: words that the rest of the source does not use."""


def counter(var: Var) -> str:
    """Return the name of a variable; others than those of operators get a prefix, so that none is a word of C."""
    return var.name if _OWN_NAME.fullmatch(var.name) else f"n_{var.name}"


def buffer_name(buffer: Buffer) -> str:
    """Return the C name of a private buffer."""
    return f"b_{buffer.name}"


def register(name: str) -> str:
    """Return the C name of a register."""
    return f"r_{name}"


def extent_text(var: Var) -> str:
    """Return the number of values of a variable."""
    return index_text(var.extent) if isinstance(var.extent, Index) else str(var.extent)


def loop_head(var: Var) -> str:
    """Return the head of the loop over a variable."""
    name = counter(var)
    return f"for (ptrdiff_t {name} = 0; {name} < {extent_text(var)}; ++{name})"


def address_text(buffer: Buffer, address: Index) -> str:
    """Return an address; functions that find elements of packed types take a ``size_t``."""
    text = index_text(address)
    return f"(size_t)({text})" if buffer.dtype.is_packed else text


def tests_text(tests: Sequence[Within]) -> str:
    """Return the tests that are not certain to hold."""
    texts: list[str] = []
    for test in tests:
        low, slack = test.index.interval.low, (test.extent - 1 - test.index).interval.low
        index = index_text(test.index)
        texts += [f"{index} >= 0"] if low is None or low < 0 else []
        texts += [f"{index} < {index_text(test.extent)}"] if slack is None or slack < 0 else []
    return " && ".join(texts) or "true"


def index_text(index: Index) -> str:
    """Return an index as a C expression of signed integers."""
    if not index.terms:
        return "0"
    first, *others = [_term_text(atoms, factor) for atoms, factor in index.terms]
    return first + "".join(f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)


def _term_text(atoms: tuple[Atom, ...], factor: int) -> str:
    product = " * ".join(map(_atom_text, atoms))
    if not atoms:
        return str(factor)
    if abs(factor) != 1:
        return f"{factor} * {product}"
    return product if factor > 0 else f"-{product}"


def _atom_text(atom: Atom) -> str:
    """Return a variable, or a quotient rounded down: C rounds toward zero, which differs below zero."""
    if isinstance(atom, Var):
        return counter(atom)
    of, by = index_text(atom.of), index_text(atom.by)
    low = atom.of.interval.low
    if low is not None and low >= 0:
        return f"(({of}) {'/' if isinstance(atom, Quotient) else '%'} ({by}))"
    if isinstance(atom, Quotient):
        return f"(({of}) >= 0 ? ({of}) / ({by}) : -((({by}) - 1 - ({of})) / ({by})))"
    return f"((({of}) % ({by}) + ({by})) % ({by}))"
