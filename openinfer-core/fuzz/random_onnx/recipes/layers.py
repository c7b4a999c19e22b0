"""Normalisation and recurrent layers."""

from __future__ import annotations

import numpy as np

from random_onnx.calls import Call
from random_onnx.recipe_registry import draws


def _epsilon(call: Call) -> None:
    call.set("epsilon", call.random.choice((1e-3, 0.5)), 0.3)


def _image(call: Call, name: str) -> tuple[int, ...]:
    array = call.take(name, ranks=(3, 4, 4, 5))
    return array.shape


@draws("BatchNormalization")
def _batch_norm(call: Call) -> None:
    names = [formal.name for formal in call.schema.inputs]
    array = call.take("X", ranks=(2, 3, 4))
    for name in names[1:4]:
        call.take(name, shape=(array.shape[1],))
    dtype = call.types(names[4])[0] if len(call.types(names[4])) == 1 else array.dtype
    call.add(names[4], np.abs(call.drawn(dtype, (array.shape[1],))).astype(dtype))
    _epsilon(call)
    call.set("momentum", 0.5, 0.2)


@draws("InstanceNormalization")
def _instance_norm(call: Call) -> None:
    shape = _image(call, "input")
    call.take("scale", shape=(shape[1],))
    call.take("B", shape=(shape[1],))
    _epsilon(call)


@draws("LayerNormalization", "RMSNormalization")
def _layer_norm(call: Call) -> None:
    array = call.take("X", ranks=(1, 2, 3, 4))
    axis = call.axis(array.ndim)
    shape = array.shape[array.ndim - 1 if axis is None else axis :]
    call.take("Scale" if call.has_input("Scale") else "scale", shape=shape)
    call.maybe("B", shape=shape)
    _epsilon(call)
    if call.schema.max_output > 1 and call.chance(0.2):
        call.outputs = call.random.choice((2, 3))


@draws("GroupNormalization")
def _group_norm(call: Call) -> None:
    groups, each = call.extent(most=3), call.extent(most=3)
    shape = (call.extent(most=3), groups * each, *(call.extent() for _ in range(call.random.choice((1, 2)))))
    call.take("X", shape=shape)
    count = groups if call.schema.since_version < 21 else groups * each
    call.take("scale", shape=(count,))
    call.take("bias", shape=(count,))
    call.attributes["num_groups"] = groups
    _epsilon(call)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@draws(*GATES)
def _recurrent(call: Call) -> None:
    name = call.schema.name
    gates, hidden, width = GATES[name], call.extent(most=4), call.extent(most=4)
    length, batch = call.extent(most=4), call.extent(most=3)
    direction = call.random.choice(("forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1
    if direction != "forward" or call.chance(0.3):
        call.attributes["direction"] = direction
    is_batched = call.flag("layout", 0.2)
    call.take("X", shape=(batch, length, width) if is_batched else (length, batch, width))
    call.take("W", shape=(directions, gates * hidden, width))
    call.take("R", shape=(directions, gates * hidden, hidden))
    call.maybe("B", shape=(directions, 2 * gates * hidden))
    state = (batch, directions, hidden) if is_batched else (directions, batch, hidden)
    call.maybe("initial_h", shape=state)
    if name == "LSTM":
        call.maybe("initial_c", shape=state)
    call.attributes["hidden_size"] = hidden
    call.flag("linear_before_reset")
    call.outputs = call.random.randint(1, call.schema.max_output)


@draws("LpNormalization", "Hardmax", "Softmax", "LogSoftmax")
def _along_an_axis(call: Call) -> None:
    array = call.take("input", ranks=(1, 2, 3, 4))
    call.axis(array.ndim)
    call.set("p", call.random.choice((1, 2)), 0.5)


@draws("HannWindow", "HammingWindow", "BlackmanWindow")
def _window(call: Call) -> None:
    call.add("size", np.array(call.extent(), call.random.choice((np.int64, np.int32))))
    call.flag("periodic")
