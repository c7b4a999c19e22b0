"""Variables that take results with as many rows as an operator counts (``specification: language.counts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import Op
from openinfer.ops.counting import counted_places

if TYPE_CHECKING:
    from openinfer.ir.graph import Graph
    from openinfer.plugins.environment import Environment


def counted_names(graph: Graph, environment: Environment) -> frozenset[str]:
    """Return the variables whose first dim an operator counts, so that a step gives them another shape."""
    names: set[str] = set()
    for _, node in graph.nodes():
        if not isinstance(node.kind, Op):
            continue
        schema = environment.ops.get(environment.op_aliases.get(node.kind.op, node.kind.op))
        if schema is not None and schema.counted:
            places = counted_places(schema)
            names.update(name for number, name in enumerate(node.kind.outputs) if number in places)
    return frozenset(names)
