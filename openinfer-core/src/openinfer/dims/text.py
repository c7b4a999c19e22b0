"""The text of a size, read back: an index expression in which ``max``, ``min`` and other symbols may be called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from openinfer.affine import IndexSyntaxError
from openinfer.affine.text import index_of_ast
from openinfer.dims.lets import Let, LetKind, divisor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index, Var

_CALLS = {kind.value: kind for kind in LetKind if kind is not LetKind.SUM}


def parse_dim(text: str, symbols: Mapping[str, Var]) -> Index:
    """Return the index that ``text`` spells, such as ``max(T - 2, 0)//(U + 1)``; ``symbols`` has each size by name.

    Raises:
        IndexSyntaxError: the text is not an index, or names an unknown size.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise IndexSyntaxError(f"{text!r} is not a size: {error}") from None
    reader = _Reader(dict(symbols))
    return reader.read(tree.body)


def _takes(kind: LetKind, count: int) -> bool:
    return count > 1 if kind is LetKind.COMMON else count == (1 if kind is LetKind.STRIDE else 2)


class _Reader(ast.NodeTransformer):
    """Replaces calls, and sums that divide, by the names of their symbols."""

    def __init__(self, symbols: dict[str, Var]) -> None:
        self._symbols = symbols

    def read(self, node: ast.expr) -> Index:
        return index_of_ast(self.visit(node), self._symbols)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        kind = _CALLS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        if kind is None or not _takes(kind, len(node.args)) or node.keywords:
            takes = "max, min and from_end take two sizes, common at least two, stride one"
            raise IndexSyntaxError(f"{ast.unparse(node)!r} is not a size: {takes}")
        return self._named(kind, *map(self.read, node.args))

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.FloorDiv | ast.Mod):
            by = self.read(node.right)
            positive = divisor(by) if by.constant is None else by
            if positive != by:
                node.right = self._named(LetKind.SUM, by)
        self.generic_visit(node)
        return node

    def _named(self, kind: LetKind, *parts: Index) -> ast.expr:
        let = Let.of(kind, *parts)
        self._symbols[let.name] = let
        return ast.Name(id=let.name)
