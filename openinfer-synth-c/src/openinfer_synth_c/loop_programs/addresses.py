"""Names of a loop program in C, and its indices, addresses and tests as expressions of type ``ptrdiff_t``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.codegen import c_notation

if TYPE_CHECKING:
    from openinfer.affine import Index, Var
    from openinfer.loops import Buffer

_OWN_NAME = re.compile(r"i\d+(_\d+)?")
"""Names of variables in the definitions of operators; no other part of the source uses them."""


_OWN_OPERAND = re.compile(r"[xyt]\d+")
"""Names of tensors that definitions of operators are given, likewise."""

_OWN_SCALAR = re.compile(r"([xyt]|total)\d+")
"""Names that schedules give what they keep of these, and totals: no two names of a loop program are the same."""


def counter(var: Var) -> str:
    """Return the name of a variable; others than those of operators get a prefix, so that none is a word of C."""
    return var.name if _OWN_NAME.fullmatch(var.name) else f"n_{var.name}"


def operand_name(name: str) -> str:
    """Return the C name of a buffer of the caller; others than those of operators get a prefix."""
    return name if _OWN_OPERAND.fullmatch(name) else f"p_{name}"


def buffer_name(buffer: Buffer) -> str:
    """Return the C name of a private buffer; others than totals get a prefix."""
    return buffer.name if _OWN_SCALAR.fullmatch(buffer.name) else f"b_{buffer.name}"


def register(name: str) -> str:
    """Return the C name of a register; others than totals and elements of tensors get a prefix."""
    return name if _OWN_SCALAR.fullmatch(name) else f"r_{name}"


def loop_head(var: Var, first: Index | None = None) -> str:
    """Return the head of the loop over a variable, which counts from ``first`` up to its extent; from 0 without.

    An extent that is a choice is computed before the loop: GCC 13 ignores pragmas on loops whose condition branches.
    """
    name, extent, start = counter(var), extent_text(var), "0" if first is None else index_text(first)
    if "?" in extent:
        return f"for (ptrdiff_t {name} = {start}, {name}_end = {extent}; {name} < {name}_end; ++{name})"
    return f"for (ptrdiff_t {name} = {start}; {name} < {extent}; ++{name})"


def pointer_text(array: str, address: Index) -> str:
    """Return a pointer to an element of an array.

    An address with a difference is computed first: no pointer may lie in front of its array, not even on the way.
    """
    if not address.terms:
        return array
    text = index_text(address)
    return f"{array} + ({text})" if "-" in text else f"{array} + {text}"


def address_text(buffer: Buffer, address: Index) -> str:
    """Return an address; functions that find elements of packed types take a ``size_t``."""
    text = index_text(address)
    return f"(size_t)({text})" if buffer.dtype.is_packed else text


_NOTATION = c_notation(counter)

extent_text, index_text, tests_text = _NOTATION.extent, _NOTATION.index, _NOTATION.tests
