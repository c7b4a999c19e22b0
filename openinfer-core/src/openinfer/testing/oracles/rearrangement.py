"""Parts, repetitions and blocks of a tensor, by NumPy or position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]


def _reshaped(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    return (np.asarray(inputs[0]).reshape(call.outputs[0].shape),)


def _expanded(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    return (np.broadcast_to(np.asarray(inputs[0]), call.outputs[0].shape),)


def _sliced(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x = np.asarray(inputs[0])
    starts, ends = settings["starts"], settings["ends"]
    axes = settings["axes"] or range(len(starts))
    chosen = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, settings["steps"] or [1] * len(starts), strict=True):
        chosen[axis] = slice(start, end, step)
    return (x[tuple(chosen)],)


def _narrowed(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x = np.asarray(inputs[0])
    start = settings["start"] % x.shape[settings["axis"]]
    return (x.take(list(range(start, start + settings["length"])), axis=settings["axis"]),)


def _selected(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.moveaxis(np.asarray(inputs[0]), settings["axis"], 0)[settings["index"], ...],)


def _split(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, axis = np.asarray(inputs[0]), int(settings["axis"])
    sizes = [kind.shape[axis] for kind in call.outputs]
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]
    return tuple(np.split(x, ends, axis=axis))


def _flipped(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.flip(np.asarray(inputs[0]), settings["axes"]),)


def _tiled(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.tile(np.asarray(inputs[0]), settings["repeats"]),)


def _repeated(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.repeat(np.asarray(inputs[0]), settings["count"], axis=settings["axis"]),)


def _depth_to_space(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, b = np.asarray(inputs[0]), settings["block"]
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    depth = x.shape[1] // (b * b)
    for n, c, row, column in np.ndindex(*found.shape):
        square = (row % b) * b + column % b
        channel = square * depth + c if settings["mode"] == "DCR" else c * b * b + square
        found[n, c, row, column] = x[n, channel, row // b, column // b]
    return (found,)


def _space_to_depth(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, b = np.asarray(inputs[0]), settings["block"]
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for n, c, row, column in np.ndindex(*x.shape):
        found[n, ((row % b) * b + column % b) * x.shape[1] + c, row // b, column // b] = x[n, c, row, column]
    return (found,)


ORACLES: dict[str, Oracle] = {
    "squeeze": _reshaped,
    "unsqueeze": _reshaped,
    "expand": _expanded,
    "slice": _sliced,
    "narrow": _narrowed,
    "select": _selected,
    "split": _split,
    "flip": _flipped,
    "tile": _tiled,
    "repeat": _repeated,
    "depth_to_space": _depth_to_space,
    "space_to_depth": _space_to_depth,
}
