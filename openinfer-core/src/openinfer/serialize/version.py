"""Which version of the graph JSON a graph needs (``specification: json.versions``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.errors import PluginError
from openinfer.ir.nodes import CacheDecrement, CacheIncrement, CacheRead, CacheReset, CacheWrite, Op, Slice
from openinfer.ir.temporaries import undeclared_outputs
from openinfer.ir.uses import expressions
from openinfer.ir.values import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    ExprListValue,
    ExprValue,
    FloatValue,
    IntValue,
    Number,
    UIntValue,
)
from openinfer.plugins.environment import Environment
from openinfer.symbolic import DIVISIONS, BinOp, Const, operations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import CacheAccess, Node
    from openinfer.symbolic import IntExpr

VERSION = 4
"""The newest version, which this package reads and writes."""


_NUMBERS = (BoolValue, DoubleValue, FloatValue, IntValue, UIntValue)


def needed_version(graph: Graph) -> int:
    """Return the oldest version whose readers misread nothing.

    Fields that version 1 does not have (hints, scopes, results, unknown attributes) do not count: such readers skip
    them and lose annotations only.
    """
    nodes = [node for _, node in graph.nodes()]
    dims = (dim for decl in graph.vars.values() for dim in decl.dims)
    divides = any(map(_divides, dims)) or any(_divides(expr) for node in nodes for expr in expressions(node))
    if _has_numbers([node.kind for node in nodes if isinstance(node.kind, Op)]):
        return 4
    if divides or undeclared_outputs(graph) or any(map(_is_new, nodes)):
        return 3
    if any(isinstance(decl.init, float) and not math.isfinite(decl.init) for decl in graph.vars.values()):
        return 2
    return 2 if any(map(_is_extended, nodes)) else 1


def _has_numbers(statements: Sequence[Op]) -> bool:
    """Whether an operator has a number as an input, in place or by name."""
    if any(isinstance(ref, Number) for op in statements for ref in op.inputs):
        return True
    named = [(op.op, name) for op in statements for name, value in op.settings.items() if isinstance(value, _NUMBERS)]
    # Only its operator knows whether a name is that of an input or of a setting.
    environment = _environment() if named else Environment()
    schemas = ((environment.ops.get(environment.op_aliases.get(op, op)), name) for op, name in named)
    return any(schema is not None and schema.input(name) is not None for schema, name in schemas)


def _environment() -> Environment:
    """Return the operators that are installed; none where loading is strict and a plugin is broken."""
    try:
        return Environment.default()
    except PluginError:
        return Environment()


def _is_new(node: Node) -> bool:
    """Whether a statement counts by an amount that is not a number, or writes a range of a cache."""
    kind = node.kind
    if isinstance(kind, CacheIncrement | CacheDecrement):
        return not isinstance(kind.amount, Const)
    return isinstance(kind, CacheWrite) and any(isinstance(slot, Slice) for slot in kind.dst.slots)


def _divides(expr: IntExpr) -> bool:
    return not DIVISIONS.isdisjoint(operations(expr))


def _is_extended(node: Node) -> bool:
    kind = node.kind
    if isinstance(kind, Op):
        return len(kind.outputs) > 1 or any(_is_extension(value) for value in kind.settings.values())
    if isinstance(kind, CacheRead):
        return _has_expression(kind.src)
    if isinstance(kind, CacheWrite):
        return _has_expression(kind.dst)
    return isinstance(kind, CacheReset) and _has_expression(kind.target)


def _is_extension(value: object) -> bool:
    if isinstance(value, DoubleValue | FloatValue):
        return not math.isfinite(value.value)
    return isinstance(value, DTypeListValue | DoubleListValue | ExprValue | ExprListValue)


def _has_expression(access: CacheAccess) -> bool:
    return any(isinstance(bound, BinOp) for bound in access.expressions())
