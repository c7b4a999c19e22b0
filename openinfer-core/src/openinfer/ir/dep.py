"""What the targets of ``dep after(…) before(…);`` name (``specification: language.ordering``)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from enum import Enum, auto
from typing import TYPE_CHECKING

from openinfer.ir.nodes import (
    Assign,
    Await,
    Barrier,
    Branch,
    CacheDecrement,
    CacheIncrement,
    CacheRead,
    CacheReset,
    CacheWrite,
    Dep,
    Loop,
    Op,
    Return,
    Transfer,
    Yield,
)
from openinfer.ir.uses import reads, writes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ir.nodes import Node

_KEYWORDS: dict[str, type] = {
    "cache.read": CacheRead,
    "cache.write": CacheWrite,
    "cache.increment": CacheIncrement,
    "cache.decrement": CacheDecrement,
    "cache.reset": CacheReset,
    "assign": Assign,
    "op": Op,
    "transfer": Transfer,
    "branch": Branch,
    "loop": Loop,
    "barrier": Barrier,
    "dep": Dep,
    "yield": Yield,
    "await": Await,
    "return": Return,
}


class _Rule(Enum):
    """A way in which a target matches a statement."""

    OPERATOR = auto()
    KIND = auto()
    NAMED = auto()
    WRITES = auto()
    TOUCHES = auto()


class DepTargets:
    """The statements of one list, found by what the targets of its ``dep`` statements name.

    Every statement is visited once, when this is made; each ``dep`` then costs a binary search.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._positions: dict[tuple[_Rule, str | type], list[int]] = {}
        for position, node in enumerate(nodes):
            for key in set(_keys(node)):
                self._positions.setdefault(key, []).append(position)

    def ordered_by(self, position: int) -> tuple[Node | None, Node | None]:
        """Return the nodes that the ``dep`` at ``position`` of the list orders, None where nothing matches.

        ``after`` is the last matching node before it, ``before`` the first matching node after it.

        Raises:
            TypeError: there is another statement.
        """
        dep = self._nodes[position].kind
        if not isinstance(dep, Dep):
            raise TypeError(f"statement {position} is not a dep: {dep!r}")
        return self._last_before(position, dep.after), self._first_after(position, dep.before)

    def _last_before(self, position: int, target: str) -> Node | None:
        for positions in self._matching(target, _Rule.WRITES):
            index = bisect_left(positions, position)
            if index > 0:
                return self._nodes[positions[index - 1]]
        return None

    def _first_after(self, position: int, target: str) -> Node | None:
        for positions in self._matching(target, _Rule.TOUCHES):
            index = bisect_right(positions, position)
            if index < len(positions):
                return self._nodes[positions[index]]
        return None

    def _matching(self, target: str, variable: _Rule) -> Iterator[list[int]]:
        """Yield the positions that match by each rule; the first rule that matches any decides."""
        for key in _rules(target, variable):
            yield self._positions.get(key, [])


def _rules(target: str, variable: _Rule) -> Iterator[tuple[_Rule, str | type]]:
    kind = _KEYWORDS.get(target)
    if kind is not None and "." in target:
        yield _Rule.KIND, kind
        return
    yield _Rule.OPERATOR, target
    if kind is not None:
        yield _Rule.KIND, kind
    yield _Rule.NAMED, target
    yield variable, target


def _keys(node: Node) -> Iterator[tuple[_Rule, str | type]]:
    """Yield everything that a statement matches by."""
    yield _Rule.KIND, type(node.kind)
    if isinstance(node.kind, Op):
        yield _Rule.OPERATOR, node.kind.op
    for name in _names(node):
        yield _Rule.NAMED, name
    for inner in _inside(node):
        written = writes(inner)
        for name in written:
            yield _Rule.WRITES, name
        for name in written | reads(inner):
            yield _Rule.TOUCHES, name


def _names(node: Node) -> Iterator[str]:
    """Yield the names of a loop, of the blocks of a branch, and of the scopes around a statement."""
    yield from node.scope
    if isinstance(node.kind, Loop):
        yield node.kind.name
    elif isinstance(node.kind, Branch):
        yield from (block for block in (node.kind.then_block, node.kind.else_block) if block is not None)


def _inside(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current.kind, Loop):
            stack.extend(current.kind.body)
