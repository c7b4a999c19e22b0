"""Images of other sizes, position by position."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.testing.elements import ByElement, Elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle


def _resized(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    x = np.asarray(inputs[0])
    sizes = list(zip(x.shape[2:], _size(x.shape[2:], call.settings), strict=True))

    def nearest(place: tuple[int, ...]) -> Any:
        n, c, *at = place
        row, column = (index * size // result for index, (size, result) in zip(at, sizes, strict=True))
        return x[n, c, row, column]

    def linear(place: tuple[int, ...]) -> Any:
        n, c, *at = place
        return sum(
            x[n, c, row, column] * (down * across)
            for row, down in _shares(at[0], *sizes[0])
            for column, across in _shares(at[1], *sizes[1])
        )

    shape = (*x.shape[:2], *(result for _, result in sizes))
    return Elements(shape, x.dtype, nearest if call.settings["mode"] == "nearest" else linear)


def _size(image: Sequence[int], settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Return rows and columns of the result: with factors, as many places as end inside the larger image.

    Where it ends is rounded as an f32.
    """
    if settings["size"] is not None:
        return tuple(settings["size"])
    scale = settings["scale"]
    factors = cast("tuple[float, ...]", scale if isinstance(scale, tuple) else (scale, scale))
    return tuple(
        sum(1 for _ in takewhile(lambda end, room=room: end <= room, count(1)))
        for room in (np.float32(size) * np.float32(factor) for size, factor in zip(image, factors, strict=True))
    )


def _shares(place: int, size: int, result: int) -> list[tuple[int, float]]:
    """Return the two places around a place of the result, each with its share."""
    source = min(max(Fraction(2 * place + 1, 2) * size / result - Fraction(1, 2), Fraction(0)), Fraction(size - 1))
    low = int(source)
    return [(low, float(1 - (source - low))), (min(low + 1, size - 1), float(source - low))]


def _mixes_no_floats(inputs: Sequence[TensorType], settings: Mapping[str, Any]) -> bool:
    return settings.get("mode") == "linear" and not inputs[0].dtype.is_float


ORACLES: dict[str, Oracle] = {"resize2d": ByElement(_resized)}

ILLEGAL: dict[str, Illegal] = {
    "resize2d": _mixes_no_floats,
}
