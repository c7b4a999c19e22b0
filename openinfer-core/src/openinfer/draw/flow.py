"""The control flow of a graph: straight runs, loops, branches, and the hand-over of variables between blocks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from openinfer.draw.statements import scope_text
from openinfer.ir.nodes import Await, Branch, Loop, Return, Yield

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.draw.statements import Labels
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node

LINES_PER_RUN = 16
"""Most statements of one run; a longer one goes on in another box."""

MAX_HANDOVERS = 2000
"""Most edges between yields and awaits: a variable that many blocks hand round makes their product."""


class FlowKind(Enum):
    """What a node of the flow stands for."""

    START = "start"
    RUN = "run"
    LOOP = "loop"
    BRANCH = "branch"
    CALL = "call"
    YIELD = "yield"
    AWAIT = "await"
    RETURN = "return"


class EdgeKind(Enum):
    """What following an edge means."""

    NEXT = "next"
    EACH = "each"
    REPEAT = "repeat"
    CALL = "call"
    THEN = "then"
    ELSE = "else"
    HANDOVER = "handover"


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A box: one control statement, or a run of statements that follow each other in one scope."""

    number: int
    kind: FlowKind
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FlowEdge:
    """An arrow between two nodes, of one block or of two."""

    source: int
    target: int
    kind: EdgeKind
    label: str = ""


@dataclass(frozen=True, slots=True)
class FlowBlock:
    """A block; its first node is where it starts."""

    name: str
    nodes: tuple[FlowNode, ...]


@dataclass(frozen=True, slots=True)
class FlowGraph:
    """A whole program; ``left_out`` counts hand-overs beyond `MAX_HANDOVERS`."""

    blocks: tuple[FlowBlock, ...]
    edges: tuple[FlowEdge, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Handover:
    """A ``yield`` of one block whose variables an ``await`` of another takes."""

    yields: Node
    awaits: Node
    names: tuple[str, ...]


def blocks_in_order(graph: Graph) -> list[Block]:
    """Return the blocks, ``entry`` first."""
    return sorted(graph.blocks.values(), key=lambda block: block.name != "entry")


def handovers(graph: Graph) -> Iterator[Handover]:
    """Yield every pair of a yield and an await between ``entry`` (with its sub-blocks) and a consumer block."""
    consumers = {name for name, block in graph.blocks.items() if name != "entry" and _has_await(block)}
    awaiting: dict[tuple[bool, str], list[Node]] = defaultdict(list)
    for block, node in graph.nodes():
        if isinstance(node.kind, Await):
            for name in dict.fromkeys(node.kind.names):
                awaiting[block.name in consumers, name].append(node)
    for block, node in graph.nodes():
        if isinstance(node.kind, Yield):
            taken: dict[int, tuple[Node, list[str]]] = {}
            for name in dict.fromkeys(node.kind.names):
                for other in awaiting[block.name not in consumers, name]:
                    taken.setdefault(id(other), (other, []))[1].append(name)
            for other, names in taken.values():
                yield Handover(node, other, tuple(names))


def _has_await(block: Block) -> bool:
    return any(isinstance(node.kind, Await) for node in block.walk())


def flow_of(graph: Graph, labels: Labels) -> FlowGraph:
    """Return the control flow of a graph; a branch to a block that does not exist has no edge."""
    builder = _Builder(labels)
    blocks = tuple(builder.block(block) for block in blocks_in_order(graph))
    starts = {block.name: block.nodes[0].number for block in blocks}
    calls = [
        FlowEdge(source, starts[name], kind, "" if kind is EdgeKind.CALL else kind.value)
        for source, name, kind in builder.calls
        if name in starts
    ]
    pairs = handovers(graph)
    handed = [
        FlowEdge(builder.places[id(h.yields)], builder.places[id(h.awaits)], EdgeKind.HANDOVER, ", ".join(h.names))
        for h in islice(pairs, MAX_HANDOVERS)
    ]
    return FlowGraph(blocks, (*builder.edges, *calls, *handed), sum(1 for _ in pairs))


class _Builder:
    """Numbers the nodes of all blocks; ``_open`` are the edges that wait for the node that comes next."""

    def __init__(self, labels: Labels) -> None:
        self.edges: list[FlowEdge] = []
        self.calls: list[tuple[int, str, EdgeKind]] = []
        self.places: dict[int, int] = {}
        self._labels = labels
        self._count = 0
        self._nodes: list[FlowNode] = []
        self._open: list[tuple[int, EdgeKind, str]] = []

    def block(self, block: Block) -> FlowBlock:
        self._nodes, self._open = [], []
        self._add(FlowKind.START, ("start",))
        self._statements(block.nodes)
        return FlowBlock(block.name, tuple(self._nodes))

    def _add(self, kind: FlowKind, lines: tuple[str, ...], node: Node | None = None) -> int:
        number = self._count
        self._count += 1
        self._nodes.append(FlowNode(number, kind, lines))
        self._close(number)
        self._open = [(number, EdgeKind.NEXT, "")]
        if node is not None:
            self.places[id(node)] = number
        return number

    def _close(self, target: int) -> None:
        self.edges += [FlowEdge(source, target, kind, label) for source, kind, label in self._open]

    def _statements(self, nodes: Iterable[Node]) -> None:
        run: list[Node] = []
        for node in nodes:
            kind = _KINDS.get(type(node.kind))
            if run and (kind is not None or node.scope != run[-1].scope or len(run) == LINES_PER_RUN):
                self._run(run)
                run = []
            if kind is None:
                run.append(node)
            elif isinstance(node.kind, Loop):
                self._loop(node, node.kind)
            else:
                self._control(node, kind)
        if run:
            self._run(run)

    def _run(self, run: list[Node]) -> None:
        self._add(FlowKind.RUN, (*_scope_line(run[0]), *map(self._line, run)))

    def _line(self, node: Node) -> str:
        note = self._labels.note(node)
        return f"{self._labels.text(node)} : {note}" if note else self._labels.text(node)

    def _loop(self, node: Node, loop: Loop) -> None:
        head = self._add(FlowKind.LOOP, (*_scope_line(node), self._line(node)), node)
        self._open = [(head, EdgeKind.EACH, f"each {loop.index}")]
        self._statements(loop.body)
        self.edges += [FlowEdge(source, head, EdgeKind.REPEAT, "again") for source, _, _ in self._open]
        self._open = [(head, EdgeKind.NEXT, "done")]

    def _control(self, node: Node, kind: FlowKind) -> None:
        branch = node.kind if isinstance(node.kind, Branch) else None
        shown = FlowKind.CALL if branch is not None and branch.cond is None else kind
        number = self._add(shown, (*_scope_line(node), self._line(node)), node)
        if branch is not None and branch.cond is None:
            self.calls.append((number, branch.then_block, EdgeKind.CALL))
        elif branch is not None:
            self.calls.append((number, branch.then_block, EdgeKind.THEN))
            if branch.else_block is not None:
                self.calls.append((number, branch.else_block, EdgeKind.ELSE))
        if kind is FlowKind.RETURN:
            self._open = []


_KINDS: dict[type, FlowKind] = {
    Loop: FlowKind.LOOP,
    Branch: FlowKind.BRANCH,
    Yield: FlowKind.YIELD,
    Await: FlowKind.AWAIT,
    Return: FlowKind.RETURN,
}


def _scope_line(node: Node) -> tuple[str, ...]:
    return (f"scope {scope_text(node.scope)}",) if node.scope else ()
