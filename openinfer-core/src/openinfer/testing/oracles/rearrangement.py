"""Parts, repetitions and blocks of a tensor, by NumPy or position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]


def _squeezed(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x = np.asarray(inputs[0])
    axes = range(x.ndim) if settings["axes"] is None else [axis % x.ndim for axis in settings["axes"]]
    return (x.reshape([extent for axis, extent in enumerate(x.shape) if axis not in axes or extent != 1]),)


def _unsqueezed(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x = np.asarray(inputs[0])
    rank, shape = x.ndim + len(settings["axes"]), list(x.shape)
    for axis in sorted(axis % rank for axis in settings["axes"]):
        shape.insert(axis, 1)
    return (x.reshape(shape),)


def _expanded(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, wanted = np.asarray(inputs[0]), settings["shape"]
    # Without the setting, it is the shape that the program declares.
    shape = call.outputs[0].shape if wanted is None else np.broadcast_shapes(x.shape, wanted)
    return (np.broadcast_to(x, shape),)


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
    axis, start = settings["axis"], settings["start"]
    start += x.shape[axis] if start < 0 else 0
    return (np.moveaxis(np.moveaxis(x, axis, 0)[start : start + settings["length"]], 0, axis),)


def _selected(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.moveaxis(np.asarray(inputs[0]), settings["axis"], 0)[settings["index"], ...],)


def _split(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, axis = np.asarray(inputs[0]), int(settings["axis"])
    sizes = _sizes(settings, x.shape[axis], [declared.shape[axis] for declared in call.outputs])
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]
    return tuple(np.split(x, ends, axis=axis))


def _sizes(settings: Mapping[str, Any], extent: int, declared: list[int]) -> list[int]:
    """Return the extents of the parts; without settings, those that the program declares."""
    if settings["sizes"] is not None:
        return list(settings["sizes"])
    if settings["parts"] is None:
        return declared
    longest = -(-extent // settings["parts"])
    return [len(range(extent)[start : start + longest]) for start in range(0, settings["parts"] * longest, longest)]


def _flipped(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.flip(np.asarray(inputs[0]), settings["axes"]),)


def _tiled(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.tile(np.asarray(inputs[0]), settings["repeats"]),)


def _repeated(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.repeat(np.asarray(inputs[0]), settings["count"], axis=settings["axis"]),)


def _depth_to_space(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, b = np.asarray(inputs[0]), settings["block"]
    depth = x.shape[1] // (b * b)

    def rule(place: tuple[int, ...]) -> Any:
        n, c, row, column = place
        square = (row % b) * b + column % b
        channel = square * depth + c if settings["mode"] == "DCR" else c * b * b + square
        return x[n, channel, row // b, column // b]

    return Elements((x.shape[0], depth, x.shape[2] * b, x.shape[3] * b), x.dtype, rule)


def _space_to_depth(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, b = np.asarray(inputs[0]), settings["block"]
    depth = x.shape[1]

    def rule(place: tuple[int, ...]) -> Any:
        n, channel, row, column = place
        square = channel // depth
        return x[n, channel % depth, row * b + square // b, column * b + square % b]

    return Elements((x.shape[0], depth * b * b, x.shape[2] // b, x.shape[3] // b), x.dtype, rule)


ORACLES: dict[str, Oracle] = {
    "squeeze": _squeezed,
    "unsqueeze": _unsqueezed,
    "expand": _expanded,
    "slice": _sliced,
    "narrow": _narrowed,
    "select": _selected,
    "split": _split,
    "flip": _flipped,
    "tile": _tiled,
    "repeat": _repeated,
    "depth_to_space": ByElement(_depth_to_space),
    "space_to_depth": ByElement(_space_to_depth),
}
