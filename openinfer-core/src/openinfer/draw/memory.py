"""What a picture says of the memory sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.draw.statements import shown, sized_type
from openinfer.ir.graph import MemoryKind
from openinfer.ir.resolved import Filled
from openinfer.ir.text import declaration_text, type_text

if TYPE_CHECKING:
    from openinfer.ir.graph import Graph, VarDecl
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """A declaration.

    ``type`` has numbers if they are known, ``nbytes`` is None if they are not or if the declaration stands for many
    tensors, ``source`` is the model's name of its data if it has any.
    """

    name: str
    formals: str
    type: str
    attributes: str
    nbytes: int | None
    source: str


def memory_rows(graph: Graph, resolved: ResolvedGraph | None = None) -> dict[MemoryKind, list[MemoryRow]]:
    """Return the declarations of each section that has any, in the order of the language's sections."""
    rows: dict[MemoryKind, list[MemoryRow]] = {}
    for kind in MemoryKind:
        found = [_row(decl, resolved) for decl in graph.vars.values() if decl.kind is kind]
        if found:
            rows[kind] = found
    return rows


def memory_lines(graph: Graph, resolved: ResolvedGraph | None = None) -> dict[MemoryKind, list[str]]:
    """Return the declarations of each section, one line each."""
    return {
        kind: [" ".join(filter(None, (f"{row.name}{row.formals}: {row.type}", row.attributes))) for row in rows]
        for kind, rows in memory_rows(graph, resolved).items()
    }


def _row(decl: VarDecl, resolved: ResolvedGraph | None) -> MemoryRow:
    formals = f"({', '.join(decl.formals)})" if decl.formals else ""
    declared = type_text(decl.dtype, decl.dims)
    attributes = declaration_text(decl).removeprefix(f"{decl.name}{formals}: {declared}").removesuffix(";").strip()
    type_, source = _known(decl, resolved)
    return MemoryRow(
        name=decl.name,
        formals=formals,
        type=declared if type_ is None else sized_type(type_),
        attributes=shown(attributes),
        nbytes=None if type_ is None or decl.formals else type_.nbytes,
        source=shown(source),
    )


def _known(decl: VarDecl, resolved: ResolvedGraph | None) -> tuple[TensorType | None, str]:
    if resolved is None:
        return None, ""
    table = resolved.tables.get(decl.name)
    if table is not None:
        return table.type, ""
    variable = resolved.variables[decl.name]
    initial = variable.initial
    return variable.type, "" if initial is None or isinstance(initial, Filled) else initial.name
