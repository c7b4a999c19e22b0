"""Functions of one number, and powers."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import BOOL
from openinfer.testing.result_types import fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes


def of_floats(rule: Callable[..., Exact], *names: str) -> Oracle:
    """Return the oracle of a rule over whole float arrays and the settings named."""

    def oracle(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
        given = [values for values in inputs if values is not None]
        return (np.asarray(rule(*given, *(call.settings[name] for name in names))),)

    return oracle


def erf(x: Exact) -> Exact:
    """Return the error function."""
    return np.vectorize(math.erf, otypes=[np.float64])(x) if x.size else x


def _rounded(x: Exact, mode: str) -> Exact:
    if mode == "half_away":
        whole = np.trunc(x)
        return whole + np.copysign(np.where(np.abs(x - whole) >= 0.5, 1.0, 0.0), x)
    return {"half_even": np.rint, "down": np.floor, "up": np.ceil}[mode](x)


ORACLES: dict[str, Oracle] = {
    "exp": of_floats(np.exp),
    "log": of_floats(np.log),
    "sqrt": of_floats(np.sqrt),
    "rsqrt": of_floats(lambda x: 1 / np.sqrt(x)),
    "sin": of_floats(np.sin),
    "cos": of_floats(np.cos),
    "tan": of_floats(np.tan),
    "tanh": of_floats(np.tanh),
    "sinh": of_floats(np.sinh),
    "cosh": of_floats(np.cosh),
    "asinh": of_floats(np.arcsinh),
    "acosh": of_floats(np.arccosh),
    "atanh": of_floats(np.arctanh),
    "erf": of_floats(erf),
    "floor": of_floats(np.floor),
    "ceil": of_floats(np.ceil),
    "trunc": of_floats(np.trunc),
    "round": of_floats(_rounded, "mode"),
    "is_nan": of_floats(np.isnan),
    "is_inf": of_floats(np.isinf),
    "is_finite_each": of_floats(np.isfinite),
    "is_finite": of_floats(lambda x: np.isfinite(x).all()),
    "fill_nan_like": of_floats(lambda x, value: np.where(np.isfinite(x), x, float(value)), "value"),
}

RESULT_TYPES: dict[str, ResultTypes] = {
    **dict.fromkeys(("is_nan", "is_inf", "is_finite_each", "is_finite"), fixed(BOOL)),
}
