"""Layers with a state that the model keeps: `SVDF`, and `UNIDIRECTIONAL_SEQUENCE_LSTM` as a loop over time."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.onnx_files.control_flow import Row, turns
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.tflite_files.families.windows import integer_products, real_weight
from openinfer.importers.tflite_files.fixed_point import rescaled
from openinfer.importers.tflite_files.image_order import permuted
from openinfer.importers.tflite_files.node import is_quantised
from openinfer.importers.tflite_files.requantising import activated, codes_of, real_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Dim
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node

_IN_REALS = "LSTM layers of integers: states are integers, what is between them reals; TFLite has fixed point there"

_ACTIVATIONS = ("none", "relu", "relu_n1_to_1", "relu6", "tanh", "sign_bit")


def _keep(node: Node, position: int, value: Value) -> None:
    if node.tensor(position).is_variable:
        node.graph.keep(node, node.graph.kept(node.source.inputs[position]), value)


# SVDF


def _svdf(node: Node) -> Value:
    """A filter of features, whose last results stay in the state, and a filter of these along time.

    Formula: Nakkiran et al., "Compressing deep neural networks using a rank-constrained topology", 2015.
    """
    x, feature, time, rank = node.given(0), node.given(1), node.given(2), int(node.option("Rank"))
    if x.rank != 2 or feature.rank != 2 or time.rank != 2 or rank < 1:
        node.refuse(f"of rank {rank}, with inputs of {x.rank}, {feature.rank} and {time.rank} dims, expected 2")
    batch, (filters, memory) = x.dims[0], time.dims
    if not is_number(batch):
        node.refuse("the batch depends on sizes: fix it with --set")
    element = _features(node, x, node.part(feature, "weight"))
    before = node.call("reshape", node.given(4), shape=(batch, filters, memory))
    last = node.call("reshape", element, shape=(batch, filters, 1))
    kept = node.call("slice", before, starts=(1,), ends=(memory,), axes=(2,))
    state = node.emit.ops("concat", [kept, last], {"axis": 2})[0] if memory != 1 else last
    _keep(node, 4, node.call("reshape", state, shape=node.given(4).dims))
    total = _along_time(node, state, node.part(time, "time"))
    units = node.call("reshape", total, shape=(batch, -1, rank))
    made = node.call("sum_axis", units, axes=(2,)) if rank > 1 else total
    bias = node.input(3)
    if bias is not None:
        made = node.call("add", made, node.part(bias, "bias"))
    return _as_codes(node, made) if node.is_quantised else activated(node, made)


def _features(node: Node, x: Value, feature: Value) -> Value:
    """Return the products of an input with each filter, as the state stores them."""
    if not node.is_quantised:
        return node.call("linear", x, real_weight(node, feature, (1, 0)))
    state = node.tensor(4)
    total = integer_products(node, "matmul_integer", x, permuted(node.emit, feature, (1, 0)))
    factor = _scale(node, 0) * _scale(node, 1) / node.parameters(state).scale[0]
    return rescaled(node, total, np.asarray(factor), state.dtype)


def _along_time(node: Node, state: Value, time: Value) -> Value:
    wide = state
    if node.is_quantised:
        wide, time = (node.call("cast", value, to=I32) for value in (state, time))
    elif is_quantised(node.tensor(2)):
        time = real_of(node, time, node.tensor(2))
    return node.call("sum_axis", node.call("mul", wide, time), axes=(2,))


def _as_codes(node: Node, total: Value) -> Value:
    result = node.parameters(node.results[0])
    factor = node.parameters(node.tensor(4)).scale[0] * _scale(node, 2) / result.scale[0]
    return rescaled(node, total, np.asarray(factor), node.results[0].dtype, int(result.zero[0]))


def _scale(node: Node, position: int) -> np.float32:
    return node.parameters(node.tensor(position)).scale[0]


# LSTM


@dataclass(frozen=True, slots=True)
class _Gate:
    """What a gate makes of the input, the last output and the cell; None for what it leaves out."""

    w: Value
    r: Value
    bias: Value | None
    peephole: Value | None

    def of(self, node: Node, x: Value, h: Value, cell: Value | None) -> Value:
        total = node.call("add", node.call("linear", x, self.w, self.bias), node.call("linear", h, self.r))
        if cell is not None and self.peephole is not None:
            total = node.call("add", total, node.call("mul", cell, self.peephole))
        return total


def _gate(node: Node, number: int, peephole: int | None = None) -> _Gate | None:
    """Return a gate by its place among the four; None where it is left out."""
    name = ("input", "forget", "cell", "output")[number]
    if node.input(1 + number) is None:
        return None
    w, r = (_real(node, first + number, f"{name}.{part}") for first, part in ((1, "weight"), (5, "recurrent")))
    if w is None or r is None:
        node.refuse(f"the {name} gate has no recurrent weight")
    bias = _real(node, 12 + number, f"{name}.bias")
    peep = None if peephole is None else _real(node, peephole, f"{name}.peephole")
    return _Gate(permuted(node.emit, w, (1, 0)), permuted(node.emit, r, (1, 0)), bias, peep)


def _real(node: Node, position: int, part: str) -> Value | None:
    """Return a weight as reals, under a name of its own."""
    value = node.input(position)
    if value is None:
        return None
    tensor, named = node.tensor(position), node.part(value, part)
    if not is_quantised(tensor) or value.payload is None or tensor.quantisation is None:
        return real_of(node, named, tensor)
    parameters = tensor.quantisation
    shape = [-1 if axis == parameters.axis else 1 for axis in range(value.rank)]
    dims = shape if parameters.is_per_channel else []
    differences = value.array().astype(np.int64) - parameters.zero.reshape(dims)
    return node.constant(differences.astype(np.float32) * parameters.scale.reshape(dims), named.name)


def _lstm(node: Node) -> Value:
    """A loop over time; gates and their order as in Hochreiter and Schmidhuber, with peepholes and a projection."""
    if any(node.input(position) is not None for position in range(20, 24)):
        node.refuse("coefficients of layer norms")
    if node.option("DiagonalRecurrentTensors", False):
        node.refuse("diagonal recurrent weights")
    if node.given(0).rank != 3:
        node.refuse(f"the input has {node.given(0).rank} dims, expected 3")
    if node.is_quantised and _IN_REALS not in node.emit.notes:
        node.emit.notes.append(_IN_REALS)
    is_time_major = bool(node.option("TimeMajor", False))
    x = real_of(node, node.given(0), node.tensor(0))
    rows = x if is_time_major else permuted(node.emit, x, (1, 0, 2))
    length, batch = rows.dims[:2]
    if not is_number(batch):
        node.refuse("the batch depends on sizes: fix it with --set")
    cell = _Cell.of(node)
    states = [node.emit.materialised(node.given(position)) for position in (18, 19)]

    def turn(index: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]]:
        now = node.call("select", rows, axis=0, index=index)
        made = cell.step(node, now, *(real_of(node, value, node.tensor(18 + n)) for n, value in enumerate(taken)))
        codes = [codes_of(node, value, node.tensor(18 + n)) for n, value in enumerate(made)]
        return codes, [Row(codes[0])]

    with node.graph.loop():
        after = turns(node, length, states, 1, turn, node.title)
    if after is None:
        node.refuse("its steps cannot be translated")
    for position, value in zip((18, 19), after, strict=False):
        _keep(node, position, value)
    sequence = after[2] if is_time_major else permuted(node.emit, after[2], (1, 0, 2))
    return _rescaled_output(node, sequence)


def _rescaled_output(node: Node, sequence: Value) -> Value:
    state, result = node.tensor(18), node.results[0]
    return sequence if sequence.dtype is not F32 and state.dtype is result.dtype else codes_of(node, sequence, result)


@dataclass(frozen=True, slots=True)
class _Cell:
    """The weights of an LSTM; without an input gate it is what the forget gate leaves."""

    i: _Gate | None
    f: _Gate
    g: _Gate
    o: _Gate
    projection: Value | None
    projection_bias: Value | None

    @staticmethod
    def of(node: Node) -> _Cell:
        f, g, o = _gate(node, 1, 10), _gate(node, 2), _gate(node, 3, 11)
        if f is None or g is None or o is None:
            node.refuse("a gate other than that of the input is left out")
        projection = _real(node, 16, "projection")
        projection = None if projection is None else permuted(node.emit, projection, (1, 0))
        return _Cell(_gate(node, 0, 9), f, g, o, projection, _real(node, 17, "projection_bias"))

    def step(self, node: Node, x: Value, h: Value, c: Value) -> Sequence[Value]:
        """Return the next output and the next cell."""
        f = node.call("sigmoid", self.f.of(node, x, h, c))
        if self.i is None:
            i = node.call("sub", node.number(1.0, F32), f)
        else:
            i = node.call("sigmoid", self.i.of(node, x, h, c))
        new = node.call("mul", i, _activated(node, self.g.of(node, x, h, None)))
        c = _clipped(node, node.call("add", node.call("mul", f, c), new), "CellClip")
        o = node.call("sigmoid", self.o.of(node, x, h, c))
        h = node.call("mul", o, _activated(node, c))
        if self.projection is not None:
            h = _clipped(node, node.call("linear", h, self.projection, self.projection_bias), "ProjClip")
        return h, c


def _activated(node: Node, value: Value) -> Value:
    name = node.choice("FusedActivationFunction", _ACTIVATIONS)
    if name not in ("tanh", "relu", "none"):
        node.refuse(f"the activation {name}")
    return value if name == "none" else node.call(name, value)


def _clipped(node: Node, value: Value, option: str) -> Value:
    limit = float(node.option(option, 0.0))
    return node.call("clamp", value, min=-limit, max=limit) if limit > 0 else value


TRANSLATORS = MappingProxyType({"SVDF": _svdf, "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm})
