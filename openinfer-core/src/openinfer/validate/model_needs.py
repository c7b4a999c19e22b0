"""Values that only a model can give a program: those of constants, and of sizes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.dtypes import BY_NAME
from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import Op
from openinfer.ir.temporaries import temporary_names, with_indices
from openinfer.ir.uses import expressions, reads, writes
from openinfer.ir.values import VarValue

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from openinfer.ir.graph import Graph, VarDecl
    from openinfer.ir.nodes import Node

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class ModelNeeds:
    """Names of declarations and of sizes, in the order of the text. It is false where there are none."""

    declarations: tuple[str, ...]
    sizes: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.declarations or self.sizes)

    def without(self, sizes: Container[str]) -> ModelNeeds:
        """Return what is left where some sizes have values."""
        return replace(self, sizes=tuple(name for name in self.sizes if name not in sizes))

    def __str__(self) -> str:
        parts = (_of("variable", self.declarations), _of("size", self.sizes))
        return " and ".join(filter(None, parts))


def model_needs(graph: Graph) -> ModelNeeds:
    """Return what a program takes from a model.

    These are constants, and variables that are read and never written, if they have no ``@init`` (a dynamic variable
    has its values from the host); tables of tensors with a prefix; and sizes in types, bounds, slots, indices and
    settings: names there that are neither variables nor indices of loops.
    """
    nodes = [node for _, node in graph.nodes()]
    written = {name for node in nodes for name in writes(node)}
    read = {name for node in nodes for name in reads(node)} - written
    declarations = [decl.name for decl in graph.vars.values() if _has_data_of_model(decl, decl.name in read)]
    return ModelNeeds(tuple(declarations), tuple(dict.fromkeys(_sizes(graph))))


def _sizes(graph: Graph) -> Iterator[str]:
    for decl in graph.vars.values():
        for dim in decl.dims:
            yield from symbolic.names(dim)
    variables = temporary_names(graph).union(graph.vars)
    for block in graph.blocks.values():
        for node, indices in with_indices(block.nodes):
            other = variables.union(indices, BY_NAME)
            yield from (name for name in _names_in(node) if name not in other)


def _names_in(node: Node) -> Iterator[str]:
    """Yield the names in integer expressions, and those that are settings by themselves (words have quotes)."""
    for expression in expressions(node):
        yield from symbolic.names(expression)
    if isinstance(node.kind, Op):
        yield from (value.ref.name for value in node.kind.settings.values() if isinstance(value, VarValue))


def _has_data_of_model(decl: VarDecl, is_only_read: bool) -> bool:
    if decl.ref is not None:
        return True
    if decl.init is not None or decl.kind is MemoryKind.DYNAMIC:
        return False
    return decl.kind is MemoryKind.CONSTANT or (is_only_read and not decl.table)


def _of(what: str, names: tuple[str, ...]) -> str:
    listed = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}{'' if len(names) == 1 else 's'} {listed}{more}" if names else ""
