"""What is read or written of a cache: the shape that the slots of an access select."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from openinfer.ir.nodes import Single
from openinfer.symbolic import BinOp, Const, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ir.graph import VarDecl
    from openinfer.ir.nodes import CacheAccess, Slice
    from openinfer.symbolic import IntExpr

OPEN = "…"
"""An extent that is how many entries there are."""


def access_type(access: CacheAccess, decl: VarDecl, value: Callable[[IntExpr], int | None]) -> str:
    """Return the type that an access selects, such as ``f32[T, D]`` for ``K[l, p..p+T]``.

    An index drops its dimension, a range keeps it with its length, and so do slots that are left out
    (``specification: language.accesses``). The extents of a growing matrix follow from its counts: they are written as
    declared.

    Args:
        value: the number of an extent if it is known, else None: the extent is shown as it is written.
    """
    slots = access.slots if decl.table and not decl.auto_dim else ()
    ranges = [_length(slot, value) for slot in slots if not isinstance(slot, Single)]
    if decl.table and not decl.auto_dim:
        ranges += [OPEN] * (len(decl.formals) - len(slots))
    dims = [*ranges, *(_shown(dim, value) for dim in decl.dims)]
    return f"{decl.dtype.name}[{', '.join(dims)}]" if dims else decl.dtype.name


def _length(slot: Slice, value: Callable[[IntExpr], int | None]) -> str:
    if slot.end is None or (isinstance(slot.end, Const) and slot.end.value < 0):
        return OPEN
    if slot.start is None:
        return _shown(slot.end, value)
    start, end = value(slot.start), value(slot.end)
    if start is not None and end is not None:
        return str(max(0, end - start))
    terms, number = Counter[str](), 0
    for sign, term in (*_terms(slot.end, 1), *_terms(slot.start, -1)):
        if isinstance(term, Const):
            number += sign * term.value
        else:
            size = value(term)
            number += 0 if size is None else sign * size
            terms[text(term)] += sign if size is None else 0
    return _sum(terms, number)


def _terms(expr: IntExpr, sign: int) -> list[tuple[int, IntExpr]]:
    """Return the terms of a sum with their signs."""
    if isinstance(expr, BinOp) and expr.op in ("+", "-"):
        return [*_terms(expr.left, sign), *_terms(expr.right, sign if expr.op == "+" else -sign)]
    return [(sign, expr)]


def _sum(terms: Counter[str], number: int) -> str:
    """Return a sum as it would be written, positive terms first."""
    written = ""
    for term, factor in sorted(terms.items(), key=lambda item: -item[1]):
        if factor:
            product = term if abs(factor) == 1 else f"{abs(factor)}*{term}"
            written += product if not written and factor > 0 else f"{'+' if factor > 0 else '-'}{product}"
    if not written:
        return str(max(0, number))
    return f"{written}{number:+d}" if number else written


def _shown(dim: IntExpr, value: Callable[[IntExpr], int | None]) -> str:
    number = value(dim)
    return text(dim) if number is None else str(number)
