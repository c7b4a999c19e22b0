"""Names of a graph: variables, temporaries and the loop indices around a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import Assign, Await
from openinfer.ir.temporaries import undeclared_outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.ir.graph import Block, Graph, VarDecl
    from openinfer.ir.nodes import Node
    from openinfer.ir.temporaries import Undeclared


@dataclass(frozen=True, slots=True)
class Names:
    """Every name that statements may use, but for loop indices.

    Attributes:
        temporaries: node of the first ``assign`` of each name.
        inferred: `undeclared_outputs` of the graph.
        consumers: names of the blocks that wait for a yield.
        persistent: names of the persistent variables.
    """

    variables: Mapping[str, VarDecl]
    temporaries: Mapping[str, Node]
    inferred: Undeclared
    consumers: frozenset[str]
    persistent: tuple[str, ...]

    def known(self, indices: Iterable[str] = ()) -> list[str]:
        """Return all names, for suggestions."""
        return [*self.variables, *self.temporaries, *self.inferred, *indices]

    def is_temporary(self, name: str) -> bool:
        """Whether a name is a temporary, declared or inferred."""
        return name in self.temporaries or name in self.inferred


def collect_names(graph: Graph, blocks: list[Block]) -> Names:
    """Return the names of a graph; ``blocks`` gives the order in which a name counts as first."""
    temporaries: dict[str, Node] = {}
    consumers: set[str] = set()
    for block in blocks:
        for node in block.walk():
            if isinstance(node.kind, Assign):
                temporaries.setdefault(node.kind.name, node)
            elif isinstance(node.kind, Await) and block.name != "entry":
                consumers.add(block.name)
    persistent = tuple(decl.name for decl in graph.vars.values() if decl.kind is MemoryKind.PERSISTENT)
    return Names(graph.vars, temporaries, undeclared_outputs(graph), frozenset(consumers), persistent)


def ordered_blocks(graph: Graph) -> list[Block]:
    """Return the blocks, ``entry`` first, then by name."""
    return sorted(graph.blocks.values(), key=lambda block: (block.name != "entry", block.name))
