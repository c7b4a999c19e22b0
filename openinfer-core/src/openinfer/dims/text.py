"""The text of a size, read back: an index expression in which ``max``, ``min`` and ``from_end`` may be called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from openinfer.affine import IndexSyntaxError
from openinfer.affine.text import index_of_ast
from openinfer.dims.lets import Let, LetKind, divisor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index, Var

_CALLS = {kind.value: kind for kind in (LetKind.MAX, LetKind.MIN, LetKind.FROM_END)}


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


class _Reader(ast.NodeTransformer):
    """Replaces calls, and sums that divide, by the names of their symbols."""

    def __init__(self, symbols: dict[str, Var]) -> None:
        self._symbols = symbols

    def read(self, node: ast.expr) -> Index:
        return index_of_ast(self.visit(node), self._symbols)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name) or node.func.id not in _CALLS or len(node.args) != 2 or node.keywords:
            raise IndexSyntaxError(f"{ast.unparse(node)!r} is not a size: max, min and from_end take two sizes")
        return self._named(_CALLS[node.func.id], *map(self.read, node.args))

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
