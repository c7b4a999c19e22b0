"""The same elements in another order or under another shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]


def _reshaped(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, wanted = np.asarray(inputs[0]), settings["shape"]
    if wanted is None:
        return (x.reshape(call.outputs[0].shape),)  # what the program declares
    # A written 0 copies a dim; a computed one, of a type of its own, is an extent.
    return (x.reshape([x.shape[n] if type(dim) is int and dim == 0 else dim for n, dim in enumerate(wanted)]),)


def _flattened(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    x, axis = np.asarray(inputs[0]), int(str(call.settings["axis"]))
    return (x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])),)


def _copied(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    del call
    return (np.asarray(inputs[0]),)


def _transposed(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, perm = np.asarray(inputs[0]), settings["perm"]
    order = tuple(reversed(range(x.ndim))) if perm is None else perm

    def rule(place: tuple[int, ...]) -> Any:
        source = [0] * x.ndim
        for position, axis in enumerate(order):
            source[axis] = place[position]
        return x[tuple(source)]

    return Elements(tuple(x.shape[axis] for axis in order), x.dtype, rule)


ORACLES: dict[str, Oracle] = {
    "reshape": _reshaped,
    "flatten": _flattened,
    "identity": _copied,
    "transpose": ByElement(_transposed),
}
