"""Attention and rotary embeddings, one query and one pair at a time."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.refused import Element, past_the_ends
from openinfer.testing.summing import total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.testing.elements import Place
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.refused import RefusedElements

    Settings = Mapping[str, SettingValue]
    Inputs = Sequence[Exact | None]


def _at(inputs: Inputs, number: int) -> Any:
    """Return an input; None where it is left out."""
    return inputs[number] if number < len(inputs) else None


def _number(settings: Settings, name: str, default: float) -> Any:
    value = settings.get(name)
    return default if value is None else value


def sdpa(inputs: Inputs, call: OpCall) -> Elements:
    q, k, v = (_whole(_at(inputs, number)) for number in range(3))
    mask = _at(inputs, 3)
    if mask is not None:
        mask = np.broadcast_to(_whole(mask), (*q.shape[:3], k.shape[2]))
    rank = _at(inputs, 0).ndim

    @cache
    def row(b: int, h: int, i: int) -> Any:
        head = h // (q.shape[1] // k.shape[1])
        shown = None if mask is None else mask[b, h, i]
        return _query(q[b, h, i], k[b, head], v[b, head], shown, (i, q.shape[2]), call.settings)

    def rule(place: Place) -> Any:
        return row(*(0,) * (4 - rank), *place[:-1])[place[-1]]

    return Elements((*_at(inputs, 0).shape[:-1], v.shape[3]), np.float64, rule)


def _whole(array: Any) -> Any:
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _query(q: Any, k: Any, v: Any, mask: Any, place: tuple[int, int], settings: Settings) -> Any:
    """Return the result for one query over the keys and values of its head."""
    valid = int(_number(settings, "kv_len", len(k)))
    position = place[0] + int(_number(settings, "q_offset", valid - place[1]))
    window, cap = int(_number(settings, "window", -1)), float(_number(settings, "softcap", 0.0))
    scale = float(_number(settings, "scale", 1 / math.sqrt(max(len(q), 1))))
    logits: dict[int, float] = {}
    for j in range(valid):
        hidden = (settings["causal"] and j > position) or (window >= 0 and j < position - window)
        if hidden or (mask is not None and mask.dtype == np.bool_ and not mask[j]):
            continue
        logit = scale * total((q * k[j]).tolist())
        logit = cap * math.tanh(logit / cap) if cap > 0 else logit
        logits[j] = logit if mask is None or mask.dtype == np.bool_ else logit + float(mask[j])
    if any(map(math.isnan, logits.values())):
        return np.full(v.shape[1], math.nan)
    top = max(logits.values(), default=-math.inf)
    if top == -math.inf:
        return np.zeros(v.shape[1])
    weights = {j: math.exp(logit - top) for j, logit in logits.items()}
    whole = total(weights.values())
    return np.array([total(w * v[j, d] for j, w in weights.items()) / whole for d in range(v.shape[1])])


def attn(inputs: Inputs, call: OpCall) -> Elements:
    x, k, v, w = (_at(inputs, number) for number in range(4))
    keys, values = (array if array.ndim == 3 else array[None] for array in (k, v))
    rows, depth = x.shape[0], keys.shape[2]
    heads = (x if w is None else w).shape[1] // depth

    @cache
    def query(i: int, h: int) -> Any:
        columns = range(h * depth, (h + 1) * depth)
        if w is None:
            return x[i, columns.start : columns.stop]
        return np.array([total((x[i] * w[:, column]).tolist()) for column in columns])

    @cache
    def row(i: int, h: int) -> Any:
        own = h // (heads // keys.shape[1])
        return _query(query(i, h), keys[:, own], values[:, own], None, (i, rows), call.settings)

    def rule(place: Place) -> Any:
        i, column = place
        return row(i, column // values.shape[2])[column % values.shape[2]]

    return Elements((rows, heads * values.shape[2]), np.float64, rule)


def rope(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, pos = _at(inputs, 0), _at(inputs, 1)
    dim = int(cast("int", call.settings["rotary_dim"])) or x.shape[-1]
    base, factor = (float(cast("float", call.settings[name])) for name in ("base", "freq_scale"))
    angles = np.zeros((*pos.shape, dim // 2))
    for place in np.ndindex(*pos.shape):
        for i in range(dim // 2):
            angles[(*place, i)] = int(pos[place]) * factor * base ** (-2 * i / dim)
    return (_turned(x, np.cos(angles), np.sin(angles), call.settings),)


def rope_cached(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, cos, sin, pos = (_at(inputs, number) for number in range(4))
    if pos is not None:
        cos, sin = (_rows_at(table, pos) for table in (cos, sin))
    return (_turned(x, cos, sin, call.settings),)


def _rows_at(table: Any, pos: Any) -> Any:
    return np.array([table[int(place)] for place in pos.ravel()]).reshape(*pos.shape, *table.shape[1:])


def _turned(x: Any, cos: Any, sin: Any, settings: Settings) -> Any:
    """Turn the pairs of every vector along the last dim of x."""
    axis = cast("int", settings["seq_axis"]) % x.ndim
    pairs, y = cos.shape[-1], x.copy()
    for place in np.ndindex(*x.shape[:-1]):
        row = (place[0], place[axis]) if cos.ndim == 3 else (place[axis],)
        for i in range(pairs):
            first, second = (2 * i, 2 * i + 1) if settings["interleaved"] else (i, i + pairs)
            a, b, c, s = x[(*place, first)], x[(*place, second)], cos[(*row, i)], sin[(*row, i)]
            y[(*place, first)], y[(*place, second)] = a * c - b * s, b * c + a * s
    return y


def _outside_tables(call: OpCall) -> Iterator[Element]:
    """Yield positions that cosines and sines have no row for."""
    cos = call.inputs[1]
    if cos is not None:
        yield from past_the_ends(3, cos.shape[0])


ORACLES: dict[str, Oracle] = {
    "sdpa": ByElement(sdpa),
    "attn": ByElement(attn),
    "rope": rope,
    "rope_cached": rope_cached,
}

REFUSED: dict[str, RefusedElements] = {
    "rope_cached": _outside_tables,
}
