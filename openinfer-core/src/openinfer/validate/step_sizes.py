"""Sizes that may differ from step to step (``specification: runtime.sizes.4``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.ir.graph import MemoryKind
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from openinfer.ir.graph import Graph
    from openinfer.model import Model


def step_sizes(graph: Graph, model: Model) -> frozenset[str]:
    """Return the sizes that may differ from step to step: those that are alone an extent of a dynamic variable,
    and that no constant, persistent or model-backed declaration mentions."""
    return _alone(graph) - frozenset(fixing(graph, model))


def fixing(graph: Graph, model: Model) -> dict[str, str]:
    """Return the sizes that are the same in every step, each with the declaration that fixes it."""
    fixed: dict[str, str] = {}
    for decl in graph.vars.values():
        in_model = model.linked(decl.ref or decl.name, decl.dtype) is not None or decl.pattern is not None
        if in_model or decl.kind in (MemoryKind.CONSTANT, MemoryKind.PERSISTENT):
            for dim in decl.dims:
                for name in symbolic.names(dim):
                    fixed.setdefault(name, decl.name)
    return fixed


def _alone(graph: Graph) -> frozenset[str]:
    dynamic = (decl for decl in graph.vars.values() if decl.kind is MemoryKind.DYNAMIC)
    return frozenset(dim.name for decl in dynamic for dim in decl.dims if isinstance(dim, Name))
