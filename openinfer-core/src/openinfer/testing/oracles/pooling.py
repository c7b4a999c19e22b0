"""Greatest elements and means of windows and of whole channels, position by position."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.sliding import per_dim, slides
from openinfer.testing.summing import total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.sum_errors import Terms

    Given = Sequence[Exact | None]
    Place = tuple[int, ...]


def _pooled(inputs: Given, call: OpCall, of: Callable[[list[Any], int], Any]) -> Elements:
    """Return the result of a rule on the elements that each window reads and the number of its places in image and
    padding."""
    x = np.asarray(inputs[0])
    settings: Mapping[str, Any] = call.settings
    over = slides(settings, x.shape[2:], per_dim(settings["kernel"], x.ndim - 2))

    def rule(place: Place) -> Any:
        n, c, *at = place
        reads = [slide.reads(position) for slide, position in zip(over, at, strict=True)]
        covered = [slide.covers(position) for slide, position in zip(over, at, strict=True)]
        values = [x[(n, c, *(source for _, source in read))] for read in product(*reads)]
        return of(values, int(np.prod(covered)))

    return Elements((*x.shape[:2], *(len(slide.starts) for slide in over)), x.dtype, rule)


def _greatest(inputs: Given, call: OpCall) -> Elements:
    def of(values: list[Any], covered: int) -> Any:
        del covered
        known = [value for value in values if value == value]
        return max(known) if known else values[0]

    return _pooled(inputs, call, of)


def _mean(inputs: Given, call: OpCall) -> Elements:
    def of(values: list[Any], covered: int) -> Any:
        return total(values) / (covered if call.settings["count_include_pad"] else len(values))

    return _pooled(inputs, call, of)


def _of_channels(of: Callable[[list[Any]], Any]) -> Oracle:
    def elements(inputs: Given, call: OpCall) -> Elements:
        del call
        x = np.asarray(inputs[0])

        def rule(place: Place) -> Any:
            return of(x[place[0], place[1]].reshape(-1).tolist())

        return Elements((*x.shape[:2], *(1 for _ in x.shape[2:])), x.dtype, rule)

    return ByElement(elements)


def _first_or_greatest(values: list[Any]) -> Any:
    """A NaN in first position wins; others never do."""
    return values[0] if values[0] != values[0] else max(value for value in values if value == value)


ORACLES: dict[str, Oracle] = {
    "max_pool1d": ByElement(_greatest),
    "max_pool2d": ByElement(_greatest),
    "avg_pool1d": ByElement(_mean),
    "avg_pool2d": ByElement(_mean),
    "global_avg_pool": _of_channels(lambda values: total(values) / len(values)),
    "global_max_pool": _of_channels(_first_or_greatest),
}


def _taps(call: OpCall) -> int:
    """Return the number of elements of a window."""
    settings: Mapping[str, Any] = call.settings
    return prod(per_dim(settings["kernel"], len(call.outputs[0].shape) - 2))


def _channel(call: OpCall) -> int:
    x = call.inputs[0]
    return prod(x.shape[2:] if x is not None else ())


SUMS: dict[str, Terms] = {"avg_pool1d": _taps, "avg_pool2d": _taps, "global_avg_pool": _channel}
