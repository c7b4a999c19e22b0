"""Graphs with something left out or replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from openinfer.ir.graph import Block, Graph, VarDecl, walk
from openinfer.ir.nodes import (
    Assign,
    Branch,
    CacheAccess,
    CacheRead,
    CacheReset,
    CacheWrite,
    Loop,
    Node,
    NodeKind,
    Op,
    Return,
    Single,
    Slice,
    Transfer,
)
from openinfer.ir.values import Attrs, IntListValue, Ref
from openinfer.symbolic import BinOp, Const, IntExpr, Name

Change = Callable[[Node], Iterable[Node]]


def with_nodes(graph: Graph, change: Change) -> Graph:
    """Return the graph with every node replaced by what ``change`` makes of it; loops come after their bodies."""
    return with_blocks(graph, [replace(block, nodes=_changed(block.nodes, change)) for block in graph.blocks.values()])


def _changed(nodes: Iterable[Node], change: Change) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in nodes:
        kind = node.kind
        inner = replace(node, kind=replace(kind, body=_changed(kind.body, change))) if isinstance(kind, Loop) else node
        found += change(inner)
    return tuple(found)


def with_blocks(graph: Graph, blocks: Iterable[Block]) -> Graph:
    """Return the graph with other blocks."""
    return replace(graph, blocks=MappingProxyType({block.name: block for block in blocks}))


def with_vars(graph: Graph, declared: Iterable[VarDecl]) -> Graph:
    """Return the graph with other declarations."""
    return replace(graph, vars=MappingProxyType({each.name: each for each in declared}))


def without_nodes(graph: Graph, numbers: Iterable[int]) -> Graph:
    """Return the graph without some nodes."""
    gone = frozenset(numbers)
    return with_nodes(graph, lambda node: () if node.index in gone else (node,))


def without_unused(graph: Graph) -> Graph:
    """Return the graph without blocks that nothing leads to, and without declarations that nothing names."""
    called = {"entry"}
    for _, node in graph.nodes():
        if isinstance(node.kind, Branch):
            called |= {node.kind.then_block, node.kind.else_block or "entry"}
    waiting = {block.name for block, node in graph.nodes() if type(node.kind).__name__ == "Await"}
    kept = with_blocks(graph, [block for name, block in graph.blocks.items() if name in called | waiting])
    text = replace(kept, vars=MappingProxyType({})).to_dsl()
    named = set(re.findall(r"\w+", text))
    return with_vars(kept, [each for name, each in kept.vars.items() if name in named])


def in_line(graph: Graph, number: int, *, other: bool = False) -> Graph:
    """Return the graph with a loop replaced by its first iteration, or a branch by the block that it leads to."""

    def change(node: Node) -> Iterable[Node]:
        if node.index != number:
            return (node,)
        kind = node.kind
        if isinstance(kind, Loop):
            return tuple(_indexed(inner, kind.index, kind.start) for inner in kind.body)
        if isinstance(kind, Branch):
            name = kind.else_block if other and kind.else_block is not None else kind.then_block
            return tuple(node for node in graph.blocks[name].nodes if not isinstance(node.kind, Return))
        return (node,)

    return with_nodes(graph, change)


def _indexed(node: Node, index: str, value: IntExpr) -> Node:
    """Return a node of a loop with an expression in place of the index."""

    def changed(expr: IntExpr) -> IntExpr:
        return _substituted(expr, index, value)

    return replace(node, kind=_with_expressions(node.kind, changed))


def _substituted(expr: IntExpr, name: str, value: IntExpr) -> IntExpr:
    if isinstance(expr, Name):
        return value if expr.name == name else expr
    if isinstance(expr, BinOp):
        return replace(expr, left=_substituted(expr.left, name, value), right=_substituted(expr.right, name, value))
    return expr


def _with_expressions(kind: NodeKind, changed: Callable[[IntExpr], IntExpr]) -> NodeKind:
    def ref(given: Ref) -> Ref:
        return Ref(given.name, tuple(changed(each) for each in given.indices))

    def slot(given: Single | Slice) -> Single | Slice:
        if isinstance(given, Single):
            return Single(changed(given.index))
        return Slice(*(None if bound is None else changed(bound) for bound in (given.start, given.end)))

    def access(given: CacheAccess) -> CacheAccess:
        return replace(given, slots=tuple(slot(each) for each in given.slots))

    if isinstance(kind, Op):
        return replace(kind, inputs=tuple(ref(each) for each in kind.inputs))
    if isinstance(kind, Transfer):
        return replace(kind, src=ref(kind.src))
    if isinstance(kind, CacheRead):
        return replace(kind, src=access(kind.src))
    if isinstance(kind, CacheWrite):
        return replace(kind, src=ref(kind.src), dst=access(kind.dst))
    if isinstance(kind, CacheReset):
        return replace(kind, target=access(kind.target))
    if isinstance(kind, Loop):
        body = tuple(replace(node, kind=_with_expressions(node.kind, changed)) for node in kind.body)
        return replace(kind, start=changed(kind.start), end=changed(kind.end), body=body)
    return kind


def with_extents(graph: Graph, change: Callable[[IntExpr], IntExpr], values: Mapping[int, int]) -> Graph:
    """Return the graph with other extents, and with numbers in lists of settings replaced likewise."""

    def changed(node: Node) -> Iterable[Node]:
        kind = node.kind
        if isinstance(kind, Assign):
            return (replace(node, kind=replace(kind, dims=tuple(map(change, kind.dims)))),)
        if isinstance(kind, Op) and values:
            settings = {
                name: IntListValue(tuple(values.get(each, each) for each in value.values))
                if isinstance(value, IntListValue)
                else value
                for name, value in kind.settings.items()
            }
            return (replace(node, kind=replace(kind, settings=Attrs(settings))),)
        return (node,)

    declared = [replace(each, dims=tuple(map(change, each.dims))) for each in graph.vars.values()]
    return with_vars(with_nodes(graph, changed), declared)


def fixed_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Return the graph with numbers for the extents that are written as expressions of sizes."""
    from openinfer.symbolic import evaluate

    return with_extents(graph, lambda dim: Const(evaluate(dim, lambda name: sizes[name])), {})


def numbers_of(graph: Graph) -> list[int]:
    """Return the numbers of all nodes, those of a loop before those in its body."""
    return [node.index for block in graph.blocks.values() for node in walk(block.nodes)]
