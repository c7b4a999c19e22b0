"""Recurrent layers and cells: gates of the weights come in the order of ONNX, whose translation follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.importers.onnx_files.values import Value, known
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,)}
"""Gates of PyTorch in the order of ONNX: input, forget, cell, output as i o f c; reset, update, new as z r h."""

_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN"}


@translates("lstm.input", "gru.input", "rnn_tanh.input")
def _layers(node: Node) -> tuple[Value, ...]:
    if node.flag("train") and node.real("dropout"):
        node.refuse("train=True: call eval() on the module before the export")
    x = node.tensor("input")
    if node.flag("batch_first"):
        x = node.call("transpose", x, perm=(1, 0, 2))
    first = node.get("hx")
    states: list[Value] = list(cast("Any", first)) if isinstance(first, tuple) else [node.tensor("hx")]
    parameters = list(node.tensors("params"))
    directions = 2 if node.flag("bidirectional") else 1
    count = len(parameters) // (node.integer("num_layers") * directions)
    if count not in (2, 4):
        node.refuse("a projection of the hidden state (proj_size)")
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(node.integer("num_layers")):
        rows = range(layer * directions, (layer + 1) * directions)
        weights = [parameters[row * count : (row + 1) * count] for row in rows]
        begin = [_rows(node, state, layer * directions, directions) for state in states]
        x, *after = _layer(node, x, weights, begin)
        for kept, value in zip(last, after, strict=True):
            kept.append(value)
    if node.flag("batch_first"):
        x = node.call("transpose", x, perm=(1, 0, 2))
    return (x, *(kept[0] if len(kept) == 1 else node.call("concat", *kept, axis=0) for kept in last))


def _rows(node: Node, state: Value, start: int, count: int) -> Value:
    """Return the first state of a layer."""
    whole = state.dims[0] == count
    return state if whole else node.call("narrow", state, axis=0, start=start, length=count)


def _layer(node: Node, x: Value, weights: Sequence[Sequence[Value]], begin: Sequence[Value]) -> list[Value]:
    """Return the hidden states of all steps [T, B, H], directions side by side, and the last states."""
    kind = _KINDS[node.op]
    w, r = (_stacked(node, [[row[part]] for row in weights]) for part in (0, 1))
    b = _stacked(node, [row[2:4] for row in weights]) if len(weights[0]) == 4 else None
    attributes: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    if len(weights) == 2:
        attributes["direction"] = "bidirectional"
    inputs = (x, w, r, b, None, *begin)
    sequence, *last = node.onnx_results(kind, inputs, 1 + len(begin), attributes)
    length, _, batch, _ = sequence.dims
    if len(weights) == 2:
        sequence = node.call("transpose", sequence, perm=(0, 2, 1, 3))
    hidden = weights[0][1].dims[1]
    return [node.reshaped(sequence, (length, batch, hidden * len(weights))), *last]


def _stacked(node: Node, directions: Sequence[Sequence[Value]]) -> Value:
    """Return weights with a dim of directions in front; two biases become one after the other."""
    parts = [[_reordered(node, value) for value in values] for values in directions]
    first = directions[0][0]
    if all(value.payload is not None for values in parts for value in values):
        array = np.stack([np.concatenate([value.array() for value in values]) for values in parts])
        return known(array, first.dtype, first.name)
    joined = [values[0] if len(values) == 1 else node.call("concat", *values, axis=0) for values in parts]
    return node.call("stack", *joined, axis=0)


def _reordered(node: Node, value: Value) -> Value:
    """Return weights with their gates in the order of ONNX."""
    order = ORDERS[node.op.removesuffix("_cell")]
    size = int(value.dims[0]) // len(order)
    if value.payload is not None:
        gates = value.array().reshape(len(order), size, *value.dims[1:])
        return known(np.concatenate([gates[gate] for gate in order]), value.dtype, value.name)
    gates = [node.call("narrow", value, axis=0, start=gate * size, length=size) for gate in order]
    return gates[0] if len(gates) == 1 else node.call("concat", *gates, axis=0)


@translates("lstm_cell", "gru_cell")
def _cell(node: Node) -> tuple[Value, ...] | Value:
    x = node.tensor("input")
    w, r = (_reordered(node, node.tensor(name)) for name in ("w_ih", "w_hh"))
    biases = [value for value in (node.optional("b_ih"), node.optional("b_hh")) if value is not None]
    b = _bias(node, biases) if biases else None
    if node.op == "lstm_cell":
        return node.emit.ops("lstm_cell", [x, *node.tensors("hx"), w, r, b], {})
    return node.call("gru_cell", x, node.tensor("hx"), w, r, b, linear_before_reset=True)


def _bias(node: Node, biases: Sequence[Value]) -> Value:
    stacked = _stacked(node, [biases])
    if stacked.payload is not None:
        return known(stacked.array()[0], stacked.dtype, stacked.name)
    return node.call("select", stacked, axis=0, index=0)
