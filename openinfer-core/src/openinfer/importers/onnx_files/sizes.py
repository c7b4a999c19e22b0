"""Sizes of a model: integers known at import, or at run time only; and how program text writes them."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, TypeGuard

from openinfer import dims, symbolic
from openinfer.affine import Index, Var
from openinfer.dims import Condition, Dim, Let, Relation, Size, sources
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.size_words import size_in_words
from openinfer.ir.text import type_text
from openinfer.symbolic import BinOp, Const

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.symbolic import IntExpr


MOST_PARENTHESES = symbolic.MAX_DEPTH - 1
"""Parentheses within one another that program text may have in a size: its statement has some of its own."""


def is_number(size: object) -> TypeGuard[int]:
    """Whether an integer is known at import: sizes count as integers otherwise."""
    return type(size) is int


def largest_number(size: Size) -> int:
    """Return the largest integer that the text of a size has."""
    if not isinstance(size, Dim):
        return size
    return max(symbolic.constants(expression(size)), default=0) if has_text(size) else 0


def is_name(size: Size) -> bool:
    """Whether a size is a variable."""
    return isinstance(size, Dim) and str(size) in names_of(size)


def names_of(*sizes: Size) -> frozenset[str]:
    """Return the names that sizes depend on."""
    return frozenset(name for size in sizes if isinstance(size, Dim) for name in sources(size.index))


def at(size: Size, values: Mapping[str, int]) -> int:
    """Return a size as a number."""
    return size.at(values) if isinstance(size, Dim) else size


def expressions(sizes: Sequence[Size]) -> tuple[IntExpr, ...]:
    """Return sizes as program text has them.

    Raises:
        ModelImportError: text has no form for one.
    """
    return tuple(map(expression, sizes))


def expression(size: Size) -> IntExpr:
    """Return a size as program text has it.

    Raises:
        ModelImportError: text has no form for it, such as a maximum.
    """
    if isinstance(size, Dim):
        written = dims.expression(size.index, lambda condition: size.asked.certain(condition) is True)
        if written is not None and _parentheses(written) <= MOST_PARENTHESES:
            return written
        options = " ".join(f"--set {name}=NUMBER" for name in sorted(sources(size.index)))
        raise ModelImportError(f"{unwritten_text(size)}: fix it with {options}", code="import-unsupported")
    return Const(size) if size >= 0 else BinOp("-", Const(0), Const(-size))


def unwritten_text(size: Size) -> str:
    """Return the sentence of an error about a size that program text has no form for."""
    return f"an extent of the result is {size_in_words(size)}; a program cannot express it"


def size_text(size: Size) -> str:
    """Return a size as text for people: ``?`` where programs have no form for it."""
    return symbolic.text(expression(size)) if has_text(size) else "?"


def shape_text(sizes: Sequence[Size]) -> str:
    """Return extents as text for people."""
    return ", ".join(map(size_text, sizes))


def typed(dtype: DType, sizes: Sequence[Size]) -> str:
    """Return an element type with extents as program text has it.

    Raises:
        ModelImportError: text has no form for one of them.
    """
    return type_text(dtype, expressions(sizes))


def has_text(size: Size) -> bool:
    """Whether program text has a form for a size."""
    if not isinstance(size, Dim):
        return True

    def is_certain(condition: Condition) -> bool:
        # Equations only tell an exact division from one that is rounded down: both have a form.
        return condition.relation is Relation.AT_LEAST and size.asked.certain(condition) is True

    written = dims.expression(size.index, is_certain)
    return written is not None and _parentheses(written) <= MOST_PARENTHESES


def _parentheses(expr: IntExpr) -> int:
    """Return how many parentheses of a text are within one another."""
    return max(accumulate((char == "(") - (char == ")") for char in symbolic.text(expr)))


def divisors(index: Index) -> Iterator[int]:
    """Yield the numbers that an index divides by."""
    for atoms, _ in index.terms:
        for atom in atoms:
            if isinstance(atom, Let):
                for part in atom.parts:
                    yield from divisors(part)
            elif not isinstance(atom, Var):
                if atom.by.constant is not None:
                    yield atom.by.constant
                yield from divisors(atom.of)
