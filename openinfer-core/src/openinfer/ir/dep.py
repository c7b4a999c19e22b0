"""What the targets of ``dep after(…) before(…);`` name (language specification, section 9.9)."""

from __future__ import annotations

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
    from collections.abc import Callable, Iterator, Sequence

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


def resolve_dep(nodes: Sequence[Node], position: int) -> tuple[Node | None, Node | None]:
    """Return the nodes that the ``dep`` at ``position`` of a statement list orders, None where nothing matches.

    ``after`` is the last matching node before it, ``before`` the first matching node behind it.
    """
    dep = nodes[position].kind
    if not isinstance(dep, Dep):
        raise TypeError(f"statement {position} is no dep: {dep!r}")
    earlier, later = list(reversed(nodes[:position])), nodes[position + 1 :]
    return _first(earlier, dep.after, _touched_by_writes), _first(later, dep.before, _touched)


def _first(nodes: Sequence[Node], target: str, touches: Callable[[Node, str], bool]) -> Node | None:
    """Return the first node that matches by the first rule that matches any."""
    for rule in _rules(target, touches):
        found = next((node for node in nodes if rule(node)), None)
        if found is not None:
            return found
    return None


def _rules(target: str, touches: Callable[[Node, str], bool]) -> Iterator[Callable[[Node], bool]]:
    kind = _KEYWORDS.get(target)
    if kind is not None and "." in target:
        yield lambda node: isinstance(node.kind, kind)
        return
    yield lambda node: isinstance(node.kind, Op) and node.kind.op == target
    if kind is not None:
        yield lambda node: isinstance(node.kind, kind)
    yield lambda node: _is_named(node, target)
    yield lambda node: touches(node, target)


def _is_named(node: Node, name: str) -> bool:
    """Return whether a node is the loop or inside the scope of that name, or a branch to that block."""
    kind = node.kind
    if isinstance(kind, Loop) and kind.name == name:
        return True
    if isinstance(kind, Branch) and name in (kind.then_block, kind.else_block):
        return True
    return name in node.scope


def _touched_by_writes(node: Node, name: str) -> bool:
    return any(name in writes(inner) for inner in _inside(node))


def _touched(node: Node, name: str) -> bool:
    return any(name in writes(inner) or name in reads(inner) for inner in _inside(node))


def _inside(node: Node) -> Iterator[Node]:
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current.kind, Loop):
            stack.extend(current.kind.body)
