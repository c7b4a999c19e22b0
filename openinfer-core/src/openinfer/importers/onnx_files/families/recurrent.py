"""Recurrent layers over whole sequences: a loop over a cell for each direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.diagnostics import counted
from openinfer.importers.onnx_files.families.runtime_quantised import scaled
from openinfer.importers.onnx_files.loops import Carried, Loop
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed, translates
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value, known

if TYPE_CHECKING:
    from openinfer.dims import Size

_LSTM = ["Sigmoid", "Tanh", "Tanh"]
DEFAULTS = {"LSTM": _LSTM, "DynamicQuantizeLSTM": _LSTM, "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@dataclass(frozen=True, slots=True)
class _Cell:
    """The weights of one direction; order of gates and layout are those of the cells of the catalogue."""

    w: Value
    r: Value
    b: Value | None


@dataclass(frozen=True, slots=True)
class _QuantisedCell:
    """The weights of one direction in bytes, by which the hidden state is multiplied as bytes too."""

    r: Value
    b: Value | None
    scale: Value
    zero: Value | None


@contributed(
    "DynamicQuantizeLSTM",
    attributes="activation_alpha activation_beta activations clip direction hidden_size input_forget",
)
@translates("LSTM", "GRU", "RNN")
def _recurrent(node: Node) -> tuple[Value | None, ...]:
    _check(node)
    x = node.given(0)
    if node.flag("layout"):
        x = node.call("transpose", x, perm=(1, 0, 2))
    length, batch = x.dims[:2]
    directions = 2 if node.get("direction", "forward") == "bidirectional" else 1
    found = [_direction(node, x, number, length, batch) for number in range(directions)]
    sequences = _joined(node, [each[0] for each in found], 1)
    states = [_joined(node, [each[place] for each in found], 0) for place in range(1, len(found[0]))]
    if node.flag("layout"):
        sequences = node.call("transpose", sequences, perm=(2, 0, 1, 3))
        states = [node.call("transpose", state, perm=(1, 0, 2)) for state in states]
    return (sequences, *states)


def _check(node: Node) -> None:
    node.require("clip", 0.0)
    node.require("input_forget", 0)
    node.require("direction", "forward", "reverse", "bidirectional")
    directions = 2 if node.get("direction", "forward") == "bidirectional" else 1
    _check_weights(node, directions)
    node.require("activations", DEFAULTS[node.op] * directions)
    if node.input(7) is not None:
        node.refuse("peephole weights, the input P, are not supported")
    lengths, length = node.input(4), node.given(0).dims[1 if node.flag("layout") else 0]
    if lengths is not None:
        known_lengths = node.plain_integers(4)
        if not is_number(length) or any(each != length for each in known_lengths or ()):
            node.refuse("sequence_lens has a length for each sequence, expected the length of the input for all")


def _check_weights(node: Node, directions: int) -> None:
    """Refuse weights of other numbers of directions or units than the attributes say."""
    for position, name in ((1, "W"), (2, "R"), (3, "B"), (5, "initial_h"), (6, "initial_c")):
        value = node.input(position)
        axis = 1 if position > 4 and node.flag("layout") else 0
        count = directions if value is None else value.dims[axis]
        if is_number(count) and count != directions:
            actual = f"{name} has {counted(count, 'direction')}"
            node.refuse(f"direction={node.get('direction', 'forward')}, but {actual}, expected {directions}")
    hidden = node.given(2).dims[1 if _is_quantised(node) else -1]
    if node.has("hidden_size") and is_number(hidden) and hidden != int(node.get("hidden_size")):
        node.refuse(f"hidden_size={node.get('hidden_size')}, but R is for {hidden} units")


def _joined(node: Node, values: list[Value], axis: int) -> Value:
    if len(values) == 1:
        return node.call("unsqueeze", values[0], axes=(axis,))
    return node.call("stack", *values, axis=axis)


def _part(node: Node, position: int, direction: int) -> Value | None:
    """Return the weights of a direction."""
    value = node.input(position)
    if value is None:
        return None
    if value.is_known:
        part = np.asarray(value.array()[direction])
        several = value.shape is not None and value.shape[0] > 1
        name = f"{value.name}.{('forward', 'reverse')[direction]}" if several else value.name
        return known(part, value.dtype, name)
    return node.call("select", value, axis=0, index=direction)


def _direction(node: Node, x: Value, direction: int, length: Size, batch: Size) -> tuple[Value, ...]:
    """Return the hidden states of all steps [T, B, H], and the last states [B, H]."""
    w, r, b = (_part(node, position, direction) for position in (1, 2, 3))
    if w is None or r is None:
        node.refuse("W or R is left out")
    hidden = r.dims[0 if _is_quantised(node) else -1]
    cell: _Cell | _QuantisedCell = _Cell(w, r, b)
    if _is_quantised(node):
        x, cell = _quantised(node, x, w, r, b, direction)
    states = [
        _initial(node, position, direction, batch, hidden) for position in ((5, 6) if "LSTM" in node.op else (5,))
    ]
    is_reverse = direction == 1 or node.get("direction", "forward") == "reverse"
    if length == 1:
        made = _step(node, cell, node.call("select", x, axis=0, index=0), states)
        return (node.call("unsqueeze", made[0], axes=(0,)), *made)
    return _loop(node, x, cell, states, length, is_reverse=is_reverse)


def _initial(node: Node, position: int, direction: int, batch: Size, hidden: Size) -> Value:
    given = node.input(position)
    if given is not None:
        state = node.call("select", given, axis=1 if node.flag("layout") else 0, index=direction)
        return state if state.rank == 2 else node.reshaped(state, (batch, hidden))
    return node.call("expand", node.number(0, node.given(0).dtype), shape=(batch, hidden))


def _is_quantised(node: Node) -> bool:
    return node.op == "DynamicQuantizeLSTM"


def _quantised(
    node: Node, x: Value, w: Value, r: Value, b: Value | None, direction: int
) -> tuple[Value, _QuantisedCell]:
    """Return what the inputs of all steps, quantised together, add to the gates [T, B, 4 H], and the cell."""
    w_scale, w_zero, r_scale, r_zero = (_part(node, position, direction) for position in range(8, 12))
    if w_scale is None or r_scale is None:
        node.refuse("scales of the weights are left out")
    return _byte_product(node, x, w, w_scale, w_zero), _QuantisedCell(r, b, r_scale, r_zero)


def _byte_product(node: Node, x: Value, weights: Value, scale: Value, zero: Value | None) -> Value:
    codes, x_scale, x_zero = node.emit.ops("dynamic_quantize_linear", [x], {})
    return scaled(node, node.call("matmul_integer", codes, weights, x_zero, zero), x_scale, scale, None)


def _quantised_step(node: Node, cell: _QuantisedCell, x: Value, states: list[Value]) -> tuple[Value, ...]:
    """Return the next states of an LSTM of what its input adds to the gates."""
    hidden, memory = states
    gates = node.call("add", x, _byte_product(node, hidden, cell.r, cell.scale, cell.zero))
    if cell.b is not None:
        gates = node.call("add", gates, _sum_of_halves(node, cell.b))
    i, o, f, c = node.emit.ops("split", [gates], {"parts": 4, "axis": 1})
    i, o, f = (node.call("sigmoid", gate) for gate in (i, o, f))
    kept, new = node.call("mul", f, memory), node.call("mul", i, node.call("tanh", c))
    memory = node.call("add", kept, new)
    return node.call("mul", o, node.call("tanh", memory)), memory


def _sum_of_halves(node: Node, bias: Value) -> Value:
    """Return the sum of the biases for the input and for the hidden state."""
    size = bias.dims[0] // 2
    if bias.is_known and is_number(size):
        return known(bias.array()[:size] + bias.array()[size:], bias.dtype, bias.name)
    return node.call("sum_axis", node.call("reshape", bias, shape=(2, size)), axes=(0,), keepdims=False)


def _step(node: Node, cell: _Cell | _QuantisedCell, x: Value, states: list[Value]) -> tuple[Value, ...]:
    """Return the next states, the hidden one first."""
    if isinstance(cell, _QuantisedCell):
        return _quantised_step(node, cell, x, states)
    if node.op == "LSTM":
        return node.emit.ops("lstm_cell", [x, *states, cell.w, cell.r, cell.b], {})
    if node.op == "GRU":
        before = node.flag("linear_before_reset")
        return node.emit.ops("gru_cell", [x, *states, cell.w, cell.r, cell.b], {"linear_before_reset": before})
    size = cell.w.shape[0] if cell.w.shape else None
    first = second = None
    if cell.b is not None and size is not None:
        first, second = (_half(node, cell.b, size, part) for part in range(2))
    inputs = node.call("linear", x, cell.w, first, trans_w=True)
    recurrent = node.call("linear", states[0], cell.r, second, trans_w=True)
    return (node.call("tanh", node.call("add", inputs, recurrent)),)


def _half(node: Node, value: Value, size: int, part: int) -> Value:
    if value.is_known:
        return known(value.array()[part * size : (part + 1) * size], value.dtype, f"{value.name}.{'wr'[part]}")
    return node.call("narrow", value, axis=0, start=part * size, length=size)


def _loop(
    node: Node, x: Value, cell: _Cell | _QuantisedCell, states: list[Value], length: Size, *, is_reverse: bool
) -> tuple[Value, ...]:
    dims = (length, *states[0].dims)
    zero = node.number(0, x.dtype)
    rows = node.call("expand", zero, shape=dims)
    taken = [Value("", state.dtype, state.dims) for state in states]
    filled = Value("", x.dtype, dims)
    with node.emit.body(length) as (index, calls):
        place = length - 1 - index if is_reverse else index
        made = _step(node, cell, node.call("select", x, axis=0, index=place), taken)
        written = node.emit.with_row(filled, place, made[0])
    after = [Value("", state.dtype, state.dims) for state in states]
    sequence = Value("", x.dtype, dims)
    carried = [Carried(*each) for each in zip(states, taken, made, after, ("h", "c"), strict=False)]
    carried.append(Carried(rows, filled, written, sequence, "steps"))
    title = f"{node.op}, {'from the end' if is_reverse else 'step by step'}"
    node.emit.loop(Loop("time", str(index), calls, length, carried, title=title))
    return (sequence, *after)
