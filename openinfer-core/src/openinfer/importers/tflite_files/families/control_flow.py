"""`IF` and `WHILE` as branches and loops of a program."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.branches import Side
from openinfer.importers.onnx_files.control_flow import MOST_TURNS, turns
from openinfer.importers.tflite_files.counting import counted_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Dim
    from openinfer.importers.onnx_files.control_flow import Row
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node

_BOUNDED = f"loops that a condition ends run at most {MOST_TURNS} turns; one that it would go on with is an error"


def _if(node: Node) -> Sequence[Value]:
    condition, given = node.given(0), [node.given(position) for position in range(1, len(node.inputs))]
    if any(dim != 1 for dim in condition.dims):
        node.refuse("a condition of several elements")
    then, otherwise = node.source.subgraphs
    if condition.payload is not None:
        return node.graph.run(then if condition.array().reshape(-1)[0] else otherwise, given)
    sides: list[Side] = []
    for name, number in (("when_true", then), ("when_false", otherwise)):
        with node.graph.side() as calls:
            results = [node.emit.materialised(value) for value in node.graph.run(number, given)]
        sides.append(Side(name, calls, results))
    types = [[(value.dtype, value.dims) for value in side.results] for side in sides]
    if types[0] != types[1]:
        node.refuse("results whose types or shapes the condition decides")
    return node.emit.branch(_scalar(node, condition), *sides)


def _scalar(node: Node, condition: Value) -> Value:
    return node.call("reshape", condition, shape=()) if condition.dims else condition


def _while(node: Node) -> Sequence[Value]:
    """Turns that are counted where the condition compares a counter, else ended by it; resources stay as they are."""
    given = [node.given(position) for position in range(len(node.inputs))]
    moving = [place for place, tensor in enumerate(node.tensors) if tensor is None or not tensor.is_resource]
    condition, body = node.source.subgraphs
    first = [node.emit.materialised(given[place]) for place in moving]

    def whole(taken: Sequence[Value]) -> list[Value]:
        made = list(given)
        for place, value in zip(moving, taken, strict=True):
            made[place] = value
        return made

    def handed_on(taken: Sequence[Value]) -> list[Value]:
        made = node.graph.run(body, whole(taken))
        return [made[place] for place in moving]

    def counted(_: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]]:
        return handed_on(taken), []

    def ended(_: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]]:
        with node.graph.side() as calls:
            made = [node.emit.materialised(value) for value in handed_on(taken[1:])]
            (goes_on,) = node.graph.run(condition, whole(made))
            made = [node.emit.materialised(_scalar(node, goes_on)), *made]
        sides = Side("turn", calls, made), Side("turns_ended", [], list(taken))
        return list(node.emit.branch(taken[0], *sides)), []

    count = counted_turns(node, node.graph.subgraph(condition), node.graph.subgraph(body), given)
    with node.graph.loop():
        if count is not None:
            after = turns(node, count, first, 0, counted, node.title)
        else:
            (start,) = node.graph.run(condition, given)
            if _BOUNDED not in node.emit.notes:
                node.emit.notes.append(_BOUNDED)
            start = node.emit.materialised(_scalar(node, start))
            goes_on, *last = turns(node, MOST_TURNS, [start, *first], 0, ended, node.title) or [start]
            after = [_unless(node, goes_on, value) for value in last]
    return whole(after or [])


def _unless(node: Node, goes_on: Value, value: Value) -> Value:
    """Return a value where a loop has ended; else its place in a list of one is out of range, and ends the step."""
    row = node.call("unsqueeze", value, axes=(0,))
    return node.call("gather", row, node.call("cast", goes_on, to=I64))


TRANSLATORS = MappingProxyType({"IF": _if, "WHILE": _while})
