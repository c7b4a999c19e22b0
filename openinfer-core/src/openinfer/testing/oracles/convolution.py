"""Sums over windows, position by position."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.accumulating import accumulated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Given = Sequence[Exact | None]
    Settings = Mapping[str, Any]


def per_dim(value: int | tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return a setting for each dim."""
    given = (value,) if isinstance(value, int) else tuple(value)
    return given * rank if len(given) == 1 else given


def first_pads(settings: Settings, image: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
    """Return how much padding stands before each dim."""
    padding, rank = settings["padding"], len(image)
    if not isinstance(padding, str):
        return per_dim(padding, rank)[:rank]
    if padding == "valid":
        return (0,) * rank
    strides, dilations = per_dim(settings["stride"], rank), per_dim(settings.get("dilation", 1), rank)
    found: list[int] = []
    for size, taps, stride, dilation in zip(image, kernel, strides, dilations, strict=True):
        positions = (size + stride - 1) // stride
        total = max((positions - 1) * stride + dilation * (taps - 1) + 1 - size, 0)
        found.append(total // 2 if padding == "same_upper" else total - total // 2)
    return tuple(found)


def _convolved(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, w, bias = np.asarray(inputs[0]), np.asarray(inputs[1]), inputs[2] if len(inputs) > 2 else None
    rank = x.ndim - 2
    strides, dilations = per_dim(settings["stride"], rank), per_dim(settings["dilation"], rank)
    before = first_pads(settings, x.shape[2:], w.shape[2:])
    found = np.zeros(call.outputs[0].shape, dtype=x.dtype)
    per_group = max(w.shape[0] // settings["groups"], 1)
    for n, o, *at in np.ndindex(*found.shape):
        total = x.dtype.type(0) if x.dtype != object else 0
        for c, *tap in np.ndindex(*w.shape[1:]):
            steps = zip(at, strides, tap, dilations, before, strict=True)
            place = [p * s + t * d - b for p, s, t, d, b in steps]
            if all(0 <= p < size for p, size in zip(place, x.shape[2:], strict=True)):
                total += w[(o, c, *tap)] * x[(n, o // per_group * w.shape[1] + c, *place)]
        found[(n, o, *at)] = total + (0 if bias is None else bias[o])
    return (accumulated(found, settings, call.outputs[0].dtype),)


def _spread(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x, w, bias = np.asarray(inputs[0]), np.asarray(inputs[1]), inputs[2] if len(inputs) > 2 else None
    strides, dilations = per_dim(settings["stride"], 2), per_dim(settings["dilation"], 2)
    found = np.zeros(call.outputs[0].shape)
    before = _cut(settings, x.shape[2:], w.shape[2:])
    per_group, kernels = x.shape[1] // settings["groups"], w.shape[1]
    for n, c, row, column in np.ndindex(*x.shape):
        for o, i, j in product(*(range(extent) for extent in w.shape[1:])):
            p = row * strides[0] + i * dilations[0] - before[0]
            q = column * strides[1] + j * dilations[1] - before[1]
            if 0 <= p < found.shape[2] and 0 <= q < found.shape[3]:
                found[n, c // per_group * kernels + o, p, q] += x[n, c, row, column] * w[c, o, i, j]
    return (found if bias is None else found + np.asarray(bias)[:, None, None],)


def _cut(settings: Settings, image: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
    padding = settings["padding"]
    if not isinstance(padding, str):
        return per_dim(padding, 2)[:2]
    strides, dilations = per_dim(settings["stride"], 2), per_dim(settings["dilation"], 2)
    more = per_dim(settings["output_padding"], 2)
    found: list[int] = []
    for size, taps, stride, dilation, extra in zip(image, kernel, strides, dilations, more, strict=True):
        total = 0 if padding == "valid" else stride * (size - 1) + dilation * (taps - 1) + 1 + extra - stride * size
        found.append(total // 2 if padding == "same_upper" else total - total // 2)
    return tuple(found)


def _greatest(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    def of(values: list[Any], padding: int) -> Any:
        del padding
        known = [value for value in values if value == value]
        return max(known) if known else values[0]

    return _pooled(inputs, call, of)


def _mean(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings

    def of(values: list[Any], padding: int) -> Any:
        return np.sum(values) / (len(values) + (padding if settings["count_include_pad"] else 0))

    return _pooled(inputs, call, of)


def _pooled(inputs: Given, call: OpCall, of: Any) -> tuple[Exact, ...]:
    settings: Mapping[str, Any] = call.settings
    x = np.asarray(inputs[0])
    rank = x.ndim - 2
    kernel, strides = per_dim(settings["kernel"], rank), per_dim(settings["stride"], rank)
    dilations = per_dim(settings.get("dilation", 1), rank)
    before, after = first_pads(settings, x.shape[2:], kernel), _last_pads(settings, x.shape[2:], kernel)
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for n, c, *at in np.ndindex(*found.shape):
        values: list[Any] = []
        padding = 0
        for tap in np.ndindex(*kernel):
            steps = zip(at, strides, tap, dilations, before, strict=True)
            place = [p * s + t * d - b for p, s, t, d, b in steps]
            if all(0 <= p < size for p, size in zip(place, x.shape[2:], strict=True)):
                values.append(x[(n, c, *place)])
            elif all(p < size + a for p, size, a in zip(place, x.shape[2:], after, strict=True)):
                padding += 1
        found[(n, c, *at)] = of(values, padding)
    return (found,)


def _last_pads(settings: Settings, image: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
    padding, rank = settings["padding"], len(image)
    if not isinstance(padding, str):
        return per_dim(padding, rank)[-rank:]
    other = {"same_upper": "same_lower", "same_lower": "same_upper"}.get(padding, padding)
    return first_pads({**settings, "padding": other}, image, kernel)


def _mean_of_all(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    return (x.reshape(*x.shape[:2], -1).mean(axis=2).reshape(call.outputs[0].shape),)


def _greatest_of_all(inputs: Given, call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    found = np.empty(call.outputs[0].shape, dtype=x.dtype)
    for n, c in np.ndindex(*x.shape[:2]):
        values = list(x[n, c].reshape(-1))
        known = [value for value in values if value == value]
        first = values[0]
        found[n, c] = first if first != first else max(known)
    return (found,)


ORACLES: dict[str, Oracle] = {
    "conv1d": _convolved,
    "conv2d": _convolved,
    "conv_transpose2d": _spread,
    "max_pool1d": _greatest,
    "max_pool2d": _greatest,
    "avg_pool1d": _mean,
    "avg_pool2d": _mean,
    "global_avg_pool": _mean_of_all,
    "global_max_pool": _greatest_of_all,
}
