"""The text of an index, read back: Python's syntax of integer expressions with ``+ - * // %``."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

from openinfer.affine.index import Index
from openinfer.affine.within import Within

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine.index import Var


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CONSTANTS = frozenset(("inf", "nan"))


class IndexSyntaxError(ValueError):
    """The text is not an index expression over the variables that were given."""


def is_identifier(name: str) -> bool:
    """Return whether computations and loop programs may use a name, so that their text reads back."""
    return bool(_IDENTIFIER.fullmatch(name)) and not keyword.iskeyword(name) and name not in _CONSTANTS


def parse_index(text: str, variables: Mapping[str, Var]) -> Index:
    """Return the index that ``text`` spells, such as ``4*i + (j + 1)//2``.

    ``variables`` has each variable that may occur under its name.

    Raises:
        IndexSyntaxError: the text is not an index, or names an unknown variable.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise IndexSyntaxError(f"{text!r} is not an index: {error}") from None
    return index_of_ast(tree.body, variables)


def index_of_ast(node: ast.expr, variables: Mapping[str, Var]) -> Index:
    """Return the index that a Python expression spells.

    Raises:
        IndexSyntaxError: it is not an index, or names an unknown variable.
    """
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return Index.of(value)
        case ast.Name(id=name):
            if name not in variables:
                known = ", ".join(sorted(variables)) or "none"
                raise IndexSyntaxError(f"unknown index variable {name!r}; known: {known}")
            return Index.of(variables[name])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -index_of_ast(operand, variables)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(node, op, index_of_ast(left, variables), index_of_ast(right, variables))
        case _:
            raise IndexSyntaxError(
                f"{ast.unparse(node)!r} is not an index: expected + - * // % over integers and variables"
            )


def within_of_ast(node: ast.expr, variables: Mapping[str, Var]) -> Within:
    """Return the condition that a Python comparison ``0 <= index < extent`` spells.

    Raises:
        IndexSyntaxError: it is not one.
    """
    match node:
        case ast.Compare(left=ast.Constant(value=0), ops=[ast.LtE(), ast.Lt()], comparators=[index, extent]):
            return Within(index_of_ast(index, variables), index_of_ast(extent, variables))
        case _:
            raise IndexSyntaxError(f"{ast.unparse(node)!r} is not a test: expected `0 <= index < extent`")


def _combined(node: ast.expr, op: ast.operator, left: Index, right: Index) -> Index:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() | ast.Mod():
            try:
                return left // right if isinstance(op, ast.FloorDiv) else left % right
            except ValueError as error:
                raise IndexSyntaxError(f"{ast.unparse(node)!r}: {error}") from None
        case _:
            raise IndexSyntaxError(f"{ast.unparse(node)!r} is not an index: expected + - * // %")
