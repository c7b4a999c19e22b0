"""Elements read and written at places that indices name, position by position."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]


def _gathered(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, indices = np.asarray(inputs[0]), np.asarray(inputs[1])
    axis = settings["axis"] % x.ndim
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for place in np.ndindex(*found.shape):
        index = indices[place[axis : axis + indices.ndim]]
        found[place] = x[(*place[:axis], int(index), *place[axis + indices.ndim :])]
    return (found,)


def _embedded(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    return _gathered((inputs[1], inputs[0]), replace(call, settings={"axis": 0}))


def _gathered_elements(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, indices = np.asarray(inputs[0]), np.asarray(inputs[1])
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for place in np.ndindex(*found.shape):
        found[place] = x[_replaced(place, settings["axis"], indices[place])]
    return (found,)


def _replaced(place: tuple[int, ...], axis: int, index: object) -> tuple[int, ...]:
    changed = list(place)
    changed[axis] = int(str(index))
    return tuple(changed)


def _gathered_nd(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, indices, batch = np.asarray(inputs[0]), np.asarray(inputs[1]), settings["batch_dims"]
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        named = tuple(int(index) for index in indices[place])
        found[place] = x[(*place[:batch], *named)]
    return (found,)


def _scattered(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    found, indices, updates = np.array(inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    for place in np.ndindex(*indices.shape):
        target = _replaced(place, settings["axis"], indices[place])
        found[target] = _met(settings["reduction"], found[target], updates[place], call.outputs[0])
    return (found,)


def _scattered_nd(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    found, indices, updates = np.array(inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    for place in np.ndindex(*updates.shape):
        named = indices[place[: indices.ndim - 1]]
        target = (*(int(index) for index in named), *place[indices.ndim - 1 :])
        found[target] = _met(settings["reduction"], found[target], updates[place], call.outputs[0])
    return (found,)


def _met(reduction: str, old: Any, new: Any, kind: TensorType) -> Any:
    """Return what an update makes of an element; bool adds as OR and multiplies as AND."""
    if reduction == "none":
        return new
    if reduction in ("max", "min"):
        if old != old or new != new:
            return new if old != old else old
        return max(old, new) if reduction == "max" else min(old, new)
    if kind.dtype.name == "bool":
        return old or new if reduction == "add" else old and new
    return old + new if reduction == "add" else old * new


def _one_hot(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    indices, depth, kind = np.asarray(inputs[0]), settings["depth"], call.outputs[0]
    axis = settings["axis"] % len(kind.shape)
    floats = np.float64 if kind.dtype.is_float else bool if kind.dtype.name == "bool" else object
    found = np.empty(kind.shape, dtype=floats)
    for place in np.ndindex(*kind.shape):
        index = int(indices[(*place[:axis], *place[axis + 1 :])])
        hot = -depth <= index < depth and index % depth == place[axis]
        found[place] = settings["on"] if hot else settings["off"]
    return (found,)


def _ranged(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    del inputs
    kind = call.outputs[0]
    found = np.empty(kind.shape, dtype=np.float64 if kind.dtype.is_float else object)
    for i in range(kind.shape[0]):
        found[i] = settings["start"] + i * settings["step"]
    return (found,)


def _iota(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    del inputs
    kind = call.outputs[0]
    found = np.empty(kind.shape, dtype=np.float64 if kind.dtype.is_float else object)
    for place in np.ndindex(*kind.shape):
        found[place] = place[settings["axis"]]
    return (found,)


ORACLES: dict[str, Oracle] = {
    "gather": _gathered,
    "embedding": _embedded,
    "gather_elements": _gathered_elements,
    "gather_nd": _gathered_nd,
    "scatter": _scattered,
    "scatter_nd": _scattered_nd,
    "one_hot": _one_hot,
    "range": _ranged,
    "iota": _iota,
}
