"""Sums over windows, position by position."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.accumulating import accumulated
from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.sliding import halved, margins, per_dim, slides
from openinfer.testing.summing import total_of_products

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.sum_errors import Terms

    Given = Sequence[Exact | None]
    Settings = Mapping[str, Any]
    Place = tuple[int, ...]


def convolved(x: Exact, w: Exact, bias: Exact | None, settings: Settings) -> Elements:
    """Return a convolution of any number of spatial dims, before it is accumulated."""
    over = slides(settings, x.shape[2:], w.shape[2:])
    kernels, depth = w.shape[:2]
    per_group = max(kernels // settings["groups"], 1)

    def rule(place: Place) -> Any:
        n, o, *at = place
        first = o // per_group * depth
        terms: list[tuple[Any, ...]] = [] if bias is None else [(bias[o],)]
        reads = [slide.reads(position) for slide, position in zip(over, at, strict=True)]
        for c in range(depth):
            for read in product(*reads):
                tap, source = zip(*read, strict=True)
                terms.append((w[(o, c, *tap)], x[(n, first + c, *source)]))
        return sum(map(prod, terms)) if x.dtype == object else total_of_products(terms)

    shape = (x.shape[0], kernels, *(len(slide.starts) for slide in over))
    return Elements(shape, x.dtype, rule)


def _convolution(inputs: Given, call: OpCall) -> Elements:
    x, w, bias = (*inputs, None)[:3]
    found = convolved(np.asarray(x), np.asarray(w), bias, call.settings)
    out = call.outputs[0].dtype
    return Elements(found.shape, found.kind, found.rule, lambda values: accumulated(values, call.settings, out))


def _transposed(inputs: Given, call: OpCall) -> Elements:
    """Each element of the result, by asking which elements of x add to it with which tap."""
    settings: Mapping[str, Any] = call.settings
    given, weights, bias = (*inputs, None)[:3]
    x, w = np.asarray(given), np.asarray(weights)
    reached = [_reached(settings, axis, x.shape[2 + axis], w.shape[2 + axis]) for axis in (0, 1)]
    inner, depth, kernels = x.shape[1] // settings["groups"], x.shape[1], w.shape[1]

    def rule(place: Place) -> Any:
        n, o, *at = place
        terms: list[tuple[Any, ...]] = [] if bias is None else [(bias[o],)]
        pairs = [targets.get(position, ()) for (_, targets), position in zip(reached, at, strict=True)]
        for c in range(depth):
            if c // inner != o // kernels:
                continue
            for (row, i), (column, j) in product(*pairs):
                terms.append((x[n, c, row, column], w[c, o % kernels, i, j]))
        return total_of_products(terms)

    shape = (x.shape[0], kernels * settings["groups"], *(extent for extent, _ in reached))
    return Elements(shape, np.float64, rule)


def _reached(settings: Settings, axis: int, size: int, taps: int) -> tuple[int, dict[int, list[tuple[int, int]]]]:
    """Return how many places a dim of the result has, and which elements reach each of them with which tap."""
    stride, dilation = (per_dim(settings[name], 2)[axis] for name in ("stride", "dilation"))
    more, padding = per_dim(settings["output_padding"], 2)[axis], settings["padding"]
    targets: dict[int, list[tuple[int, int]]] = {}
    for element, tap in product(range(size), range(taps)):
        targets.setdefault(element * stride + tap * dilation, []).append((element, tap))
    whole = max(targets) + 1 + more
    cut = margins(padding, 2, axis)
    if padding in ("same_upper", "same_lower"):
        cut = halved(whole - size * stride, padding)
    return whole - sum(cut), {place - cut[0]: pairs for place, pairs in targets.items()}


ORACLES: dict[str, Oracle] = {
    "conv1d": ByElement(_convolution),
    "conv2d": ByElement(_convolution),
    "conv_transpose2d": ByElement(_transposed),
}


def _terms(call: OpCall) -> int:
    """Return the number of weights of an output channel, and one for its bias."""
    w = call.inputs[1]
    return prod(w.shape[1:] if w is not None else ()) + 1


def _transposed_terms(call: OpCall) -> int:
    w = call.inputs[1]
    return prod((w.shape[0], *w.shape[2:]) if w is not None else ()) + 1


SUMS: dict[str, Terms] = {"conv1d": _terms, "conv2d": _terms, "conv_transpose2d": _transposed_terms}
