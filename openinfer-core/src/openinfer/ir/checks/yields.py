"""Rules for yield and await that can be checked before running (``specification: language.consumers``)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity
from openinfer.ir.checks.names import ordered_blocks
from openinfer.ir.findings import noted_at
from openinfer.ir.graph import MemoryKind, walk
from openinfer.ir.nodes import Await, Branch, Loop, Return, Yield
from openinfer.ir.places import NOWHERE, part
from openinfer.ir.temporaries import temporary_names
from openinfer.ir.uses import place_of_use, reads, writes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node


def check_yields(graph: Graph, findings: Findings) -> None:
    """Check yield and await in every block."""
    blocks = ordered_blocks(graph)
    for block in blocks:
        _check_names(graph, block, findings)
    if findings.doubts.may_miss("yield", "await"):
        return
    consumers = [block for block in blocks if block.name != "entry" and _awaited(block)]
    names = {consumer.name for consumer in consumers}
    for block in blocks:
        if block.name in names:
            _check_consumer(block, findings)
        elif block.name != "entry":
            _warn_about_yields(block, findings)
    _check_writers(graph, consumers, findings)
    if "entry" in graph.blocks:
        _EntryLine(graph, findings).run()


def _awaited(block: Block) -> list[str]:
    """Return the names that a block awaits, each once, in order."""
    waits = (node.kind.names for node in block.walk() if isinstance(node.kind, Await))
    return list(dict.fromkeys(name for names in waits for name in names))


def _check_names(graph: Graph, block: Block, findings: Findings) -> None:
    for node, indices in _with_indices(block.nodes, ()):
        if not isinstance(node.kind, Yield | Await):
            continue
        word = "yield" if isinstance(node.kind, Yield) else "await"
        for position, name in enumerate(node.kind.names):
            problem = _name_problem(graph, name, indices, is_await=word == "await")
            if problem is not None:
                place = part((node.places or NOWHERE).operands, position)
                findings.of_node(block, node, "yield-rules", f"{word} of `{name}`: {problem}", place=place)


def _with_indices(nodes: tuple[Node, ...], indices: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield every node with the loop indices around it."""
    for node in nodes:
        yield node, indices
        if isinstance(node.kind, Loop):
            yield from _with_indices(node.kind.body, (*indices, node.kind.index))


def _name_problem(graph: Graph, name: str, indices: tuple[str, ...], *, is_await: bool) -> str | None:
    if name in indices:
        return "a loop index is not a variable that blocks share"
    decl = graph.vars.get(name)
    if decl is None:
        return None
    if decl.kind is MemoryKind.PERSISTENT:
        return "persistent variables cannot be handed over"
    if decl.pattern is not None:
        return "prefix tables cannot be handed over"
    if is_await and decl.kind is MemoryKind.CONSTANT:
        return "a constant is never written, so there is nothing to wait for"
    return None


def _check_consumer(block: Block, findings: Findings) -> None:
    """Check that a consumer ends with the one yield that gives back everything it awaits."""
    for node in walk(tuple(n for n in block.nodes if isinstance(n.kind, Loop))):
        if isinstance(node.kind, Yield | Await):
            message = f"yield and await are not allowed inside a loop of the consumer `{block.name}`"
            findings.of_node(block, node, "yield-rules", message)
    for node in block.nodes[:-1]:
        if isinstance(node.kind, Yield):
            findings.of_node(block, node, "yield-rules", f"yield must be the last statement of consumer `{block.name}`")
    last = block.nodes[-1] if block.nodes else None
    if last is None or not isinstance(last.kind, Yield):
        message = f"consumer `{block.name}` must end with `yield` of everything it awaits"
        findings.of_block(block, "yield-rules", message)
        return
    back = set(last.kind.names)
    missing = [name for name in _awaited(block) if name not in back]
    if missing:
        message = f"consumer `{block.name}` awaits `{missing[0]}` and does not yield it back"
        findings.of_node(block, last, "yield-rules", message)


def _warn_about_yields(block: Block, findings: Findings) -> None:
    for node in block.walk():
        if isinstance(node.kind, Yield):
            message = f"block `{block.name}` awaits nothing: its yield is the same as `return`"
            findings.of_node(block, node, "yield-rules", message, severity=Severity.WARNING)


def _check_writers(graph: Graph, consumers: list[Block], findings: Findings) -> None:
    writers: dict[str, Block] = {}
    for block in consumers:
        written = _touched(graph, block.nodes, only_writes=True)
        for name in _awaited(block):
            if name not in written:
                continue
            first = writers.setdefault(name, block)
            if first is not block:
                message = f"consumers `{first.name}` and `{block.name}` both write `{name}`: only one may"
                findings.of_block(block, "yield-rules", message)


def _touched(graph: Graph, nodes: tuple[Node, ...], *, only_writes: bool = False) -> frozenset[str]:
    """Return every name that statements use, those of called blocks included."""
    names: set[str] = set()
    seen: set[str] = set()
    waiting = [nodes]
    while waiting:
        for node in walk(waiting.pop()):
            names |= writes(node) if only_writes else writes(node) | reads(node)
            if isinstance(node.kind, Branch):
                targets = {node.kind.then_block, node.kind.else_block} - seen
                seen |= {target for target in targets if target is not None}
                waiting += [graph.blocks[target].nodes for target in sorted(seen & targets) if target in graph.blocks]
    return frozenset(names)


class _EntryLine:
    """Follows ``entry`` along its top level, knowing which variables are out.

    Names that loops yield or await are left to the run: what is out then depends on values.
    """

    def __init__(self, graph: Graph, findings: Findings) -> None:
        self._graph = graph
        self._findings = findings
        self._entry = graph.blocks["entry"]
        inside = walk(tuple(node for node in self._entry.nodes if isinstance(node.kind, Loop)))
        self._unsure = {name for node in inside if isinstance(node.kind, Yield | Await) for name in node.kind.names}
        self._out: dict[str, Node] = {}

    @cached_property
    def _temporaries(self) -> frozenset[str]:
        return temporary_names(self._graph)

    def run(self) -> None:
        for node in self._entry.nodes:
            if isinstance(node.kind, Yield):
                self._yield(node, node.kind.names)
            elif isinstance(node.kind, Await):
                self._await(node, node.kind.names)
            else:
                self._other(node)
            if isinstance(node.kind, Return):
                return
        for name, node in self._out.items():
            self._error(node, f"`{name}` is still out when entry ends: await it before", name)

    def _error(self, node: Node, message: str, name: str) -> None:
        out = self._out.get(name, node)
        related = noted_at(f"`{name}` is yielded here", out.span) if out is not node else ()
        place = place_of_use(node, name)
        self._findings.of_node(self._entry, node, "yield-rules", message, place=place, related=related)

    def _yield(self, node: Node, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self._out:
                self._error(node, f"`{name}` is yielded again before it was awaited", name)
            elif name not in self._unsure and self._goes_out(name):
                self._out[name] = node

    def _goes_out(self, name: str) -> bool:
        return (
            self._is_known(name)
            and not self._is_constant(name)
            and _name_problem(self._graph, name, (), is_await=False) is None
        )

    def _is_known(self, name: str) -> bool:
        return name in self._graph.vars or name in self._temporaries

    def _is_constant(self, name: str) -> bool:
        """Whether yielding the name does nothing: nobody writes a constant, so it is never out."""
        decl = self._graph.vars.get(name)
        return decl is not None and decl.kind is MemoryKind.CONSTANT

    def _await(self, node: Node, names: tuple[str, ...]) -> None:
        for name in names:
            is_out = name in self._out or name in self._unsure
            if not is_out and self._is_known(name) and not self._is_constant(name):
                self._error(node, f"`{name}` is awaited, but was not yielded", name)
            self._out.pop(name, None)

    def _other(self, node: Node) -> None:
        if not self._out:
            return
        if isinstance(node.kind, Return):
            for name in self._out:
                self._error(node, f"entry returns while `{name}` is still out: await it before", name)
            return
        touched = _touched(self._graph, (node,))
        for name in sorted(touched.intersection(self._out)):
            self._error(node, f"`{name}` is used between its yield and its await", name)
