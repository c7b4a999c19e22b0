"""How many turns a `WHILE` takes, where its condition compares counters with limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.importers.tflite_files.node import is_quantised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node
    from openinfer.importers.tflite_files.source import Operator, Subgraph, Tensor

_COMPARED = {"LESS": (1, 0), "LESS_EQUAL": (1, 1), "GREATER": (-1, 0), "GREATER_EQUAL": (-1, 1)}
"""Direction in which a counter comes to its limit, and whether it takes that too."""


@dataclass(frozen=True, slots=True)
class _Count:
    """Turns until a counter has passed a limit: (limit - start + inclusive * sign) / step, rounded up."""

    start: int | Value
    limit: int | Value
    step: int
    inclusive: int


def counted_turns(node: Node, condition: Subgraph, body: Subgraph, given: Sequence[Value]) -> int | Value | None:
    """Return the number of turns, which may be one that the running program knows; None: the condition does not count.

    Args:
        given: what the first turn takes.
    """
    counts = [_count(comparison, condition, body, given) for comparison in _conjuncts(condition)]
    made = [None if count is None else _turns(node, count) for count in counts]
    known = [turns for turns in made if isinstance(turns, int)]
    running = [turns for turns in made if turns is not None and not isinstance(turns, int)]
    if len(known) + len(running) < max(len(made), 1):
        return None
    if not running:
        return min(known)
    total = running[0]
    for other in (*running[1:], *(node.number(turns, I64) for turns in known)):
        total = node.call("min", total, other)
    return total


def _writer(graph: Subgraph, position: int) -> Operator | None:
    return next((operator for operator in graph.operators if position in operator.outputs), None)


def _conjuncts(condition: Subgraph) -> list[Operator | None]:
    """Return the comparisons that all have to hold; None for what is not one."""
    pending = list(condition.outputs)
    parts: list[Operator | None] = []
    while pending:
        operator = _writer(condition, pending.pop())
        if operator is not None and operator.op == "LOGICAL_AND" and len(operator.inputs) == 2:
            pending.extend(operator.inputs)
        else:
            parts.append(operator if operator is not None and operator.op in _COMPARED else None)
        if len(parts) + len(pending) > len(condition.operators):
            return [None]
    return parts


def _count(comparison: Operator | None, condition: Subgraph, body: Subgraph, given: Sequence[Value]) -> _Count | None:
    if comparison is None or len(comparison.inputs) != 2 or _are_codes(condition, comparison.inputs):
        return None
    direction, inclusive = _COMPARED[comparison.op]
    counter, limit = comparison.inputs
    if counter not in condition.inputs:
        counter, limit, direction = limit, counter, -direction
    if counter not in condition.inputs or not condition.tensors[counter].dtype.is_integer:
        return None
    place = condition.inputs.index(counter)
    step = _step(body, place)
    bound = _limit(condition, body, limit, given)
    if step is None or bound is None or step * direction <= 0:
        return None
    return _Count(_integer(given[place]), bound, step, inclusive)


def _step(body: Subgraph, place: int) -> int | None:
    """Return what a turn adds to the counter at a place; None where it does something else."""
    writer = _writer(body, body.outputs[place]) if place < min(len(body.outputs), len(body.inputs)) else None
    if writer is None or writer.op not in ("ADD", "SUB") or len(writer.inputs) != 2:
        return None
    if writer.options.get("FusedActivationFunction", 0) or _are_codes(body, (*writer.inputs, *writer.outputs)):
        return None
    counter, other = writer.inputs
    if counter != body.inputs[place] and writer.op == "ADD":
        counter, other = other, counter
    added = _stored(body.tensors[other]) if counter == body.inputs[place] and other >= 0 else None
    return None if added is None else added if writer.op == "ADD" else -added


def _are_codes(graph: Subgraph, positions: Sequence[int]) -> bool:
    """Whether tensors are integers that stand for reals, whose sums and order are not those of the integers."""
    return any(position >= 0 and is_quantised(graph.tensors[position]) for position in positions)


def _limit(condition: Subgraph, body: Subgraph, position: int, given: Sequence[Value]) -> int | Value | None:
    """Return a limit that no turn changes."""
    if position not in condition.inputs:
        return _stored(condition.tensors[position]) if position >= 0 else None
    place = condition.inputs.index(position)
    stays = place < min(len(body.outputs), len(body.inputs)) and body.outputs[place] == body.inputs[place]
    return _integer(given[place]) if stays else None


def _stored(tensor: Tensor) -> int | None:
    payload = tensor.payload
    return int(payload.load().reshape(-1)[0]) if payload is not None and payload.count == 1 else None


def _integer(value: Value) -> int | Value:
    return int(value.array().reshape(-1)[0]) if value.payload is not None and value.payload.count == 1 else value


def _turns(node: Node, count: _Count) -> int | Value | None:
    sign = 1 if count.step > 0 else -1
    if isinstance(count.start, int) and isinstance(count.limit, int):
        distance = (count.limit - count.start) * sign + count.inclusive
        return max(-(-distance // abs(count.step)), 0)
    if abs(count.step) != 1:
        return None
    ends = [_wide(node, end) for end in (count.limit, count.start)[::sign]]
    distance = node.call("add", node.call("sub", *ends), node.number(count.inclusive, I64))
    return node.call("max", distance, node.number(0, I64))


def _wide(node: Node, end: int | Value) -> Value:
    if isinstance(end, int):
        return node.number(end, I64)
    scalar = node.call("reshape", end, shape=()) if end.dims else end
    return scalar if scalar.dtype is I64 else node.call("cast", scalar, to=I64)
