"""Elements read and written at places that indices name, position by position."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import Kind
from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.refused import Element, past_the_ends
from openinfer.testing.result_types import as_declared, of_input

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.refused import RefusedElements
    from openinfer.testing.result_types import ResultTypes

    Given = Sequence[Exact | None]
    Place = tuple[int, ...]


def _gathered(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, indices = np.asarray(inputs[0]), np.asarray(inputs[1])
    axis = settings["axis"] % x.ndim

    def rule(place: Place) -> Any:
        index = indices[place[axis : axis + indices.ndim]]
        return x[(*place[:axis], int(index), *place[axis + indices.ndim :])]

    return Elements((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype, rule)


def _embedded(inputs: Given, call: OpCall) -> Elements:
    return _gathered((inputs[1], inputs[0]), replace(call, settings={"axis": 0}))


def _gathered_elements(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, indices = np.asarray(inputs[0]), np.asarray(inputs[1])
    return Elements(indices.shape, x.dtype, lambda place: x[_replaced(place, settings["axis"], indices[place])])


def _replaced(place: Place, axis: int, index: object) -> Place:
    changed = list(place)
    changed[axis] = int(str(index))
    return tuple(changed)


def _tuples(indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return indices with tuples in their last dim: a scalar is a tuple of one."""
    return indices if indices.ndim else indices.reshape(1)


def _gathered_nd(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, indices, batch = np.asarray(inputs[0]), _tuples(np.asarray(inputs[1])), settings["batch_dims"]
    outer, named = indices.ndim - 1, batch + indices.shape[-1]

    def rule(place: Place) -> Any:
        where = tuple(int(index) for index in indices[place[:outer]])
        return x[(*place[:batch], *where, *place[outer:])]

    return Elements((*indices.shape[:-1], *x.shape[named:]), x.dtype, rule)


def _scattered(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    found, indices, updates = np.array(inputs[0]), np.asarray(inputs[1]), np.asarray(inputs[2])
    # Where a result has no element, no index is read: none names a place.
    for place in np.ndindex(*indices.shape) if found.size else ():
        target = _replaced(place, settings["axis"], indices[place])
        found[target] = _met(settings["reduction"], found[target], updates[place], call.outputs[0])
    return (found,)


def _scattered_nd(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    found, indices, updates = np.array(inputs[0]), _tuples(np.asarray(inputs[1])), np.asarray(inputs[2])
    for place in np.ndindex(*updates.shape) if found.size else ():
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


def _one_hot(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    indices, dtype = np.asarray(inputs[0]), call.outputs[0].dtype
    depth: int = settings["depth"]
    axis: int = settings["axis"] % (indices.ndim + 1)
    kind: Any = np.float64 if dtype.is_float else bool if dtype.name == "bool" else object

    def rule(place: Place) -> Any:
        index = int(indices[(*place[:axis], *place[axis + 1 :])])
        hot = -depth <= index < depth and index % depth == place[axis]
        return settings["on"] if hot else settings["off"]

    return Elements((*indices.shape[:axis], depth, *indices.shape[axis:]), kind, rule)


def _computes_ternaries(inputs: Sequence[TensorType], settings: Mapping[str, Any]) -> bool:
    return inputs[0].dtype.kind is Kind.TERNARY and settings.get("reduction", "none") != "none"


def _shape(call: OpCall, number: int) -> Place:
    given = call.inputs[number]
    return () if given is None else given.shape


def _outside_an_axis(call: OpCall) -> Iterator[Element]:
    axis = int(str(call.settings["axis"]))
    yield from past_the_ends(1, _shape(call, 0)[axis])


def _outside_a_table(call: OpCall) -> Iterator[Element]:
    yield Element(0, _shape(call, 1)[0])
    yield Element(0, -1)


def _outside_dims(call: OpCall) -> Iterator[Element]:
    """Yield indices past each of the dims that the last tuple names."""
    settings: Mapping[str, Any] = call.settings
    length, batch = (_shape(call, 1) or (1,))[-1], settings.get("batch_dims", 0)
    for number, extent in enumerate(_shape(call, 0)[batch : batch + length]):
        yield from past_the_ends(1, extent, place=number - length)


ORACLES: dict[str, Oracle] = {
    "gather": ByElement(_gathered),
    "embedding": ByElement(_embedded),
    "gather_elements": ByElement(_gathered_elements),
    "gather_nd": ByElement(_gathered_nd),
    "scatter": _scattered,
    "scatter_nd": _scattered_nd,
    "one_hot": ByElement(_one_hot),
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "embedding": of_input(1),
    "one_hot": as_declared,
}

ILLEGAL: dict[str, Illegal] = {
    "scatter": _computes_ternaries,
    "scatter_nd": _computes_ternaries,
}

REFUSED: dict[str, RefusedElements] = {
    "gather": _outside_an_axis,
    "embedding": _outside_a_table,
    "gather_elements": _outside_an_axis,
    "gather_nd": _outside_dims,
    "scatter": _outside_an_axis,
    "scatter_nd": _outside_dims,
}
