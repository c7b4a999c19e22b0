"""Graph, blocks and declarations: what a program says, before any model is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public_methods
from openinfer.diagnostics import counted
from openinfer.ir.nodes import Loop, Node
from openinfer.ir.values import Attrs

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from openinfer.diagnostics import Diagnostic, Span
    from openinfer.dtypes import DType
    from openinfer.ir.places import DeclarationPlaces
    from openinfer.ir.values import AttrValue
    from openinfer.scalars import Scalar
    from openinfer.symbolic import IntExpr


class MemoryKind(Enum):
    """The four memory sections; the value is the keyword, ``json_tag`` the spelling in graph JSON."""

    DYNAMIC = "dynamic"
    VOLATILE = "volatile"
    CONSTANT = "constant"
    PERSISTENT = "persistent"

    @property
    def json_tag(self) -> str:
        return self.value.capitalize()


@dataclass(frozen=True, slots=True)
class AttrArg:
    """One argument of an attribute that OpenInfer does not know: ``value`` or ``name=value``."""

    value: AttrValue
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VarDecl:
    """A declaration in a memory section.

    Attributes:
        dims: extents as written; empty for a scalar.
        init: ``@init`` value, already rounded to ``dtype``.
        ref: ``@ref`` target in the model.
        pattern: ``@pattern`` text of a prefix table.
        formals: index names of a prefix table or cache.
        table, auto_dim, fixed: cache attributes.
        attrs: unknown attributes with their arguments, in the order written.
        span: place of the declaration in the text.
        places: those of its parts.
    """

    name: str
    kind: MemoryKind
    dtype: DType
    dims: tuple[IntExpr, ...] = ()
    init: Scalar | None = None
    ref: str | None = None
    pattern: str | None = None
    formals: tuple[str, ...] = ()
    table: bool = False
    auto_dim: tuple[str, ...] = ()
    fixed: tuple[tuple[str, int], ...] = ()
    attrs: tuple[tuple[str, tuple[AttrArg, ...]], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    places: DeclarationPlaces | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VarDecl) and _identity(self) == _identity(other)

    def __hash__(self) -> int:
        return hash(_identity(self))


def _identity(decl: VarDecl) -> tuple[object, ...]:
    """Return what makes two declarations equal: everything but the places and the order of unknown attributes."""
    init = repr(decl.init) if isinstance(decl.init, float) and decl.init != decl.init else decl.init
    return (
        *(decl.name, decl.kind, decl.dtype, decl.dims, init, decl.ref, decl.pattern, decl.formals),
        *(decl.table, decl.auto_dim, decl.fixed, frozenset(decl.attrs)),
    )


@dataclass(frozen=True, slots=True)
class Block:
    """A named list of statements."""

    name: str
    nodes: tuple[Node, ...]
    hints: Attrs = field(default_factory=Attrs)
    span: Span | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        return f"<Block {self.name}: {counted(sum(1 for _ in self.walk()), 'node')}>"

    def walk(self) -> Iterator[Node]:
        """Yield every node of the block, loop bodies included, in written order (a loop before its body)."""
        return walk(self.nodes)


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes and the nodes of their loop bodies, in written order, without recursion."""
    stack = [iter(nodes)]
    while stack:
        for node in stack[-1]:
            yield node
            if isinstance(node.kind, Loop):
                stack.append(iter(node.kind.body))
                break
        else:
            stack.pop()


def _empty() -> Mapping[str, Any]:
    return MappingProxyType({})


@public_methods
@dataclass(frozen=True, slots=True)
class Graph:
    """A program: declarations, blocks and the next free node number.

    Equality ignores the order of declarations and blocks, node numbers, ids and spans.
    """

    vars: Mapping[str, VarDecl] = field(default_factory=_empty)
    blocks: Mapping[str, Block] = field(default_factory=_empty)
    next_index: int = field(default=0, compare=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False, repr=False)

    def __hash__(self) -> int:
        return hash((frozenset(self.vars.values()), frozenset(self.blocks)))

    def nodes(self) -> Iterator[tuple[Block, Node]]:
        """Yield every node of every block with its block."""
        for block in self.blocks.values():
            for node in block.walk():
                yield block, node

    def to_dsl(self) -> str:
        """Return canonical program text that parses back to an equal graph (``specification: language.canonical``)."""
        from openinfer.ir.text import graph_text

        return graph_text(self)

    def check(self, *, strict: bool = False) -> tuple[Diagnostic, ...]:
        """Check names, indices, attribute combinations and block rules (phase S); return the warnings.

        Raises:
            ValidationError: with every error found; in strict mode warnings are errors.
        """
        from openinfer.ir.check import check_graph

        return check_graph(self, strict=strict)

    def to_json(self) -> dict[str, Any]:
        """Return the graph as a JSON document (``specification: json.graphs``)."""
        from openinfer.serialize import GraphSerialize

        return GraphSerialize.json(self)

    @staticmethod
    def from_json(document: Mapping[str, Any] | str | os.PathLike[str]) -> Graph:
        """Return the graph of a JSON document, JSON text (a ``str``) or file (a path object).

        Raises:
            SerializationError: the document is not a graph; all findings with JSON pointers.
        """
        from openinfer.serialize import GraphDeserialize

        return GraphDeserialize.from_json(document)

    def counts(self) -> str:
        """Return how many variables, blocks and nodes there are, in words."""
        nodes = sum(1 for _ in self.nodes())
        return ", ".join(
            (counted(len(self.vars), "variable"), counted(len(self.blocks), "block"), counted(nodes, "node"))
        )

    def __str__(self) -> str:
        return self.to_dsl()

    def __repr__(self) -> str:
        return f"<Graph: {self.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import notebook_html

        return notebook_html(self)
