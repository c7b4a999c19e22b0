"""Tensors side by side, margins and triangles, position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]
    Outputs = Sequence[TensorType]


def _concatenated(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.concatenate([np.asarray(x) for x in inputs], axis=settings["axis"]),)


def _stacked(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.stack([np.asarray(x) for x in inputs], axis=settings["axis"]),)


def _padded(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, pads = np.asarray(inputs[0]), settings["pads"]
    sides = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    kept = x[(*(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(x.shape, sides, strict=True)), ...)]
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for place in np.ndindex(*found.shape):
        inner = [at - max(before, 0) for at, (before, _) in zip(place, sides, strict=True)]
        if all(0 <= at < n for at, n in zip(inner, kept.shape, strict=True)):
            found[place] = kept[tuple(inner)]
        elif settings["mode"] == "constant":
            found[place] = settings["value"]
        else:
            found[place] = kept[
                tuple(_within(at, n, settings["mode"]) for at, n in zip(inner, kept.shape, strict=True))
            ]
    return (found,)


def _within(at: int, count: int, mode: str) -> int:
    if mode == "wrap":
        return at % count
    while not 0 <= at < count:
        nearest = 0 if at < 0 else count - 1
        at = nearest if mode == "edge" or count == 1 else 2 * nearest - at
    return at


def _upper(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return _triangle(inputs, settings["k"], call.outputs, 1)


def _lower(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return _triangle(inputs, settings["k"], call.outputs, -1)


def _triangle(inputs: Given, diagonal: int, outputs: Outputs, side: int) -> tuple[Exact, ...]:
    """Return x with zeros on the other side of a diagonal; 1 keeps the upper side."""
    found = np.array(inputs[0])
    for place in np.ndindex(*outputs[0].shape):
        if (place[-1] - place[-2] - diagonal) * side < 0:
            found[place] = 0
    return (found,)


ORACLES: dict[str, Oracle] = {
    "concat": _concatenated,
    "stack": _stacked,
    "pad": _padded,
    "triu": _upper,
    "tril": _lower,
}
