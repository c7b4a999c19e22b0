"""Activations."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.testing.oracles.arithmetic import each, rounded
from openinfer.testing.oracles.functions import erf, of_floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle


_WORD = 1 << 64


def _sigmoid(x: Exact) -> Exact:
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + power), power / (1 + power))


def _softplus(x: Exact) -> Exact:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu(x: Exact, approximate: str) -> Exact:
    if approximate == "none":
        return np.where(np.isneginf(x), np.nan, x / 2 * (1 + erf(x / math.sqrt(2))))
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _at_least(x: Exact, bound: float) -> Exact:
    """Return x where it is not below the bound. Unlike np.maximum, this defines which of two zeros is the result: x."""
    return np.where(x < bound, bound, x)


def _at_most(x: Exact, bound: float) -> Exact:
    return np.where(x > bound, bound, x)


def _relu(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    alpha: Any = call.settings["alpha"]
    low: Any = call.settings["clamp_min"]
    high: Any = call.settings["clamp_max"]
    if x.dtype == np.float64:
        slope = np.zeros_like(x) if alpha == 0 else rounded(x * alpha, call.outputs[0])
        y = np.where(x >= 0, x, np.where(np.isnan(x), x, slope))
        y = y if low is None else _at_least(y, float(low))
        return (y if high is None else _at_most(y, float(high)),)

    def one(value: int) -> int:
        y = value if value >= 0 else (value * int(alpha) + _WORD // 2) % _WORD - _WORD // 2
        y = y if low is None else max(y, int(low))
        return y if high is None else min(y, int(high))

    return (each(one, x),)


def _clamp(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, dtype = np.asarray(inputs[0]), call.outputs[0].dtype
    least: Any = call.settings["min"]
    most: Any = call.settings["max"]
    if x.dtype == np.float64:
        # The rule of the reference, which `nan="bound"` restores, has the greatest finite f64 for an absent bound.
        end = sys.float_info.max if call.settings["nan"] == "bound" and dtype.bits == 64 else math.inf
        low, high = (-end if least is None else float(least)), (end if most is None else float(most))
        kept = _at_most(_at_least(x, low), high)
        return (np.where(np.isnan(x), min(low, high), kept) if call.settings["nan"] == "bound" else kept,)
    floor, ceiling = dtype.minimum or 0, dtype.maximum or 0

    def one(value: int) -> int:
        y = value if least is None else max(value, min(max(int(least), floor), ceiling))
        return y if most is None else min(y, min(max(int(most), floor), ceiling))

    return (each(one, x),)


ORACLES: dict[str, Oracle] = {
    "relu": _relu,
    "clamp": _clamp,
    "sigmoid": of_floats(_sigmoid),
    "silu": of_floats(lambda x, beta: x * _sigmoid(beta * x), "beta"),
    "gelu": of_floats(_gelu, "approximate"),
    "softplus": of_floats(_softplus),
    "elu": of_floats(lambda x, alpha: np.where(x >= 0, x, alpha * np.expm1(np.minimum(x, 0))), "alpha"),
    "selu": of_floats(lambda x: 1.05070102 * np.where(x > 0, x, 1.67326319 * np.expm1(np.minimum(x, 0)))),
    "prelu": of_floats(lambda x, slope: np.where(x < 0, x * slope, x)),
    "hard_sigmoid": of_floats(lambda x, a, b: np.clip(a * x + b, 0, 1), "alpha", "beta"),
    "hard_swish": of_floats(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "mish": of_floats(lambda x: x * np.tanh(_softplus(x))),
}
