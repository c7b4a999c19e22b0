"""Images of other sizes, position by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


def _resized(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    sizes = list(zip(x.shape[2:], found.shape[2:], strict=True))
    for n, c, *at in np.ndindex(*found.shape):
        if call.settings["mode"] == "nearest":
            row, column = (place * size // result for place, (size, result) in zip(at, sizes, strict=True))
            found[n, c, at[0], at[1]] = x[n, c, row, column]
        else:
            found[n, c, at[0], at[1]] = sum(
                x[n, c, row, column] * (down * across)
                for row, down in _shares(at[0], *sizes[0])
                for column, across in _shares(at[1], *sizes[1])
            )
    return (found,)


def _shares(place: int, size: int, result: int) -> list[tuple[int, float]]:
    """Return the two places around a place of the result, each with its share."""
    source = min(max((place + 0.5) * size / result - 0.5, 0), size - 1)
    low = int(source)
    return [(low, 1 - (source - low)), (min(low + 1, size - 1), source - low)]


ORACLES: dict[str, Oracle] = {"resize2d": _resized}
