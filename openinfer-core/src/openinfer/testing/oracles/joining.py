"""Tensors side by side, margins and triangles, position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]


def _concatenated(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.concatenate([np.asarray(x) for x in inputs], axis=settings["axis"]),)


def _stacked(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    return (np.stack([np.asarray(x) for x in inputs], axis=settings["axis"]),)


def _padded(inputs: Given, call: OpCall) -> Elements:
    settings: Mapping[str, Any] = call.settings
    x, pads, mode = np.asarray(inputs[0]), settings["pads"], settings["mode"]
    sides = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    kept = x[(*(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(x.shape, sides, strict=True)), ...)]

    def rule(place: tuple[int, ...]) -> Any:
        inner = [at - max(before, 0) for at, (before, _) in zip(place, sides, strict=True)]
        if all(0 <= at < n for at, n in zip(inner, kept.shape, strict=True)):
            return kept[tuple(inner)]
        if mode == "constant":
            return settings["value"]
        return kept[tuple(_within(at, n, mode) for at, n in zip(inner, kept.shape, strict=True))]

    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, sides, strict=True))
    return Elements(shape, x.dtype, rule)


def _within(at: int, count: int, mode: str) -> int:
    if mode == "wrap":
        return at % count
    while not 0 <= at < count:
        nearest = 0 if at < 0 else count - 1
        at = nearest if mode == "edge" or count == 1 else 2 * nearest - at
    return at


def _triangle(side: int) -> Oracle:
    """Return the oracle of x with zeros on the other side of a diagonal; 1 keeps the upper side."""

    def elements(inputs: Given, call: OpCall) -> Elements:
        x, diagonal = np.asarray(inputs[0]), int(str(call.settings["k"]))

        def rule(place: tuple[int, ...]) -> Any:
            return 0 if (place[-1] - place[-2] - diagonal) * side < 0 else x[place]

        return Elements(x.shape, x.dtype, rule)

    return ByElement(elements)


def _fills_from_nothing(inputs: Sequence[TensorType], settings: Mapping[str, SettingValue]) -> bool:
    """Whether a margin of elements of x is requested along a dim that has none."""
    pads: Any = settings["pads"]
    shape = inputs[0].shape
    empty = [n for n, extent in enumerate(shape) if not extent]
    return settings.get("mode", "constant") != "constant" and any(
        pads[n] > 0 or pads[n + len(shape)] > 0 for n in empty
    )


ORACLES: dict[str, Oracle] = {
    "concat": _concatenated,
    "stack": _stacked,
    "pad": ByElement(_padded),
    "triu": _triangle(1),
    "tril": _triangle(-1),
}

ILLEGAL: dict[str, Illegal] = {
    "pad": _fills_from_nothing,
}
