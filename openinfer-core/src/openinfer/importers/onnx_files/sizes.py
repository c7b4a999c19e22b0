"""Sizes of a model: integers known at import, or at run time only; and how program text writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from openinfer import symbolic
from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.dims import Condition, Dim, Let, LetKind, Relation, sources
from openinfer.errors import ModelImportError
from openinfer.ir.text import type_text
from openinfer.symbolic import BinOp, Const, Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine.index import Atom
    from openinfer.dims.asking import Asked
    from openinfer.dtypes import DType
    from openinfer.symbolic import IntExpr

Size: TypeAlias = "int | Dim"
"""An integer that is known at import, or a size. Two are equal where that is certain; else they are not."""


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
        return _of_index(size.index, size.asked)
    return Const(size) if size >= 0 else BinOp("-", Const(0), Const(-size))


def size_text(size: Size) -> str:
    """Return a size as text for people, whether programs have a form for it or not."""
    return symbolic.text(expression(size)) if has_text(size) else str(size)


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
    return not (isinstance(size, Dim) and any(map(_is_computed, size.index.variables())))


def _is_computed(var: Var) -> bool:
    return isinstance(var, Let) and var.kind is not LetKind.SUM


def _of_index(index: Index, asked: Asked) -> IntExpr:
    total: IntExpr | None = None
    for is_negative, term in sorted((_of_term(*term, asked) for term in index.terms), key=lambda term: term[0]):
        if total is None:
            total = BinOp("-", Const(0), term) if is_negative else term
        else:
            total = BinOp("-" if is_negative else "+", total, term)
    return Const(0) if total is None else total


def _of_term(atoms: tuple[Atom, ...], factor: int, asked: Asked) -> tuple[bool, IntExpr]:
    """Return a term without its sign, and whether that is negative."""
    term: IntExpr | None = Const(abs(factor)) if abs(factor) != 1 or not atoms else None
    is_negative = factor < 0
    for atom in atoms:
        if isinstance(atom, Quotient) and _is_below_zero(atom.of, asked):
            # Text divides what is not negative: floor(-x / n) is -ceil(x / n).
            part: IntExpr = BinOp("ceil", _of_index(-atom.of, asked), _of_index(atom.by, asked))
            is_negative = not is_negative
        else:
            part = _of_atom(atom, asked)
        term = part if term is None else BinOp("*", term, part)
    return is_negative, term or Const(0)


def _is_below_zero(index: Index, asked: Asked) -> bool:
    least, most = Condition(index, Relation.AT_LEAST), Condition(-index, Relation.AT_LEAST)
    return bool(asked.certain(most)) and not asked.certain(least)


def _of_atom(atom: Atom, asked: Asked) -> IntExpr:
    if isinstance(atom, Let) and atom.kind is LetKind.SUM:
        return _of_index(atom.parts[0], asked)
    if isinstance(atom, Let):
        names = " and ".join(sorted(sources(Index.of(atom))))
        message = f"an extent of the result is {atom.name}, which text has no form for: fix {names} with --set NAME=N"
        raise ModelImportError(message, code="import-unsupported")
    if isinstance(atom, Var):
        return Name(atom.name)
    of, by = _of_index(atom.of, asked), _of_index(atom.by, asked)
    if isinstance(atom, Remainder):
        return BinOp("%", of, by)
    is_exact = asked.certain(Condition(atom.of % atom.by, Relation.EQUAL))
    return BinOp("/" if is_exact else "floor", of, by)


def divisors(index: Index) -> Iterator[int]:
    """Yield the numbers that an index divides by."""
    for atoms, _ in index.terms:
        for atom in atoms:
            if isinstance(atom, Let):
                for part in atom.parts:
                    yield from divisors(part)
            elif not isinstance(atom, Var):
                yield atom.by.constant or 1
                yield from divisors(atom.of)
