"""Values that only a model can give a program: those of constants, and of sizes in types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.ir.graph import MemoryKind
from openinfer.ir.nodes import Assign
from openinfer.ir.temporaries import outputs
from openinfer.ir.uses import reads

if TYPE_CHECKING:
    from collections.abc import Container

    from openinfer.ir.graph import Graph, VarDecl

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
    has its values from the host); tables of tensors with a prefix; and sizes in the types of declarations.
    """
    nodes = [node for _, node in graph.nodes()]
    written = {name for node in nodes for name in outputs(node)}
    read = {name for node in nodes for name in reads(node)} - written
    declarations = [decl.name for decl in graph.vars.values() if _has_data_of_model(decl, decl.name in read)]
    dims = [dim for decl in graph.vars.values() for dim in decl.dims]
    dims += [dim for node in nodes if isinstance(node.kind, Assign) for dim in node.kind.dims]
    sizes = dict.fromkeys(name for dim in dims for name in symbolic.names(dim))
    return ModelNeeds(tuple(declarations), tuple(sizes))


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
