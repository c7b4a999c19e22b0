"""One step of recurrent cells, vector by vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Inputs = Sequence[Exact | None]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def _parts(inputs: Inputs, count: int) -> list[Any]:
    """Return the inputs, with zeros for a bias that is left out."""
    found: list[Any] = list(inputs[:count])
    if len(found) < count or found[-1] is None:
        found = [*found[: count - 1], np.zeros(2 * found[count - 2].shape[0])]
    return found


def lstm_cell(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    del call
    x, h, c, w, r, b = _parts(inputs, 6)
    size = h.shape[-1]
    state, memory = np.empty(h.shape), np.empty(h.shape)
    for place in np.ndindex(*h.shape[:-1]):
        gates = w @ x[place] + r @ h[place] + b[: 4 * size] + b[4 * size :]
        for n in range(size):
            i, o, f = (_sigmoid(gates[gate * size + n]) for gate in range(3))
            memory[(*place, n)] = f * c[(*place, n)] + i * math.tanh(gates[3 * size + n])
            state[(*place, n)] = o * math.tanh(memory[(*place, n)])
    return state, memory


def gru_cell(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, h, w, r, b = _parts(inputs, 5)
    size = h.shape[-1]
    own, past = b[: 3 * size], b[3 * size :]
    state = np.empty(h.shape)
    for place in np.ndindex(*h.shape[:-1]):
        fresh, old = w @ x[place] + own, r @ h[place] + past
        z, damp = (np.array([_sigmoid(v) for v in (fresh + old)[gate * size : (gate + 1) * size]]) for gate in range(2))
        new = slice(2 * size, 3 * size)
        damped = damp * old[new] if call.settings["linear_before_reset"] else r[new] @ (damp * h[place]) + past[new]
        state[place] = (1 - z) * np.tanh(fresh[new] + damped) + z * h[place]
    return (state,)


ORACLES: dict[str, Oracle] = {"lstm_cell": lstm_cell, "gru_cell": gru_cell}
