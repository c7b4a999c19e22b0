"""Conversion between element types, and constants."""

# pyright: basic
# (rules are lambdas over arrays whose element types vary)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import T1, DType, Kind
from openinfer.testing.accumulating import clipped, converted
from openinfer.testing.oracles.arithmetic import each
from openinfer.testing.refused import Element

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.refused import RefusedElements
    from openinfer.testing.result_types import ResultTypes


_DIRECTED = {"trunc": math.trunc, "floor": math.floor, "down": math.floor, "ceil": math.ceil, "up": math.ceil}


def _whole(value: float, mode: str) -> float:
    """Return a float as a whole number by a rounding mode; NaN and infinities stay."""
    if not math.isfinite(value):
        return value
    if mode in _DIRECTED:
        return _DIRECTED[mode](value)
    # The remainder has the sign of the value, and is exact.
    down, remainder = math.floor(value), math.fmod(value, 1)
    if abs(remainder) != 0.5:
        return down + (remainder > 0.5 or -0.5 < remainder < 0)
    odd = down % 2 != 0
    up = {
        "half_even": odd,
        "half_odd": not odd,
        "half_up": True,
        "half_down": False,
        "half_away": value > 0,
        "nearest": value > 0,
    }
    return down + up[mode]


def _cast(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, to = np.asarray(inputs[0]), call.outputs[0].dtype
    if to.kind is Kind.BOOL:
        return (np.asarray(x != 0).astype(np.bool_),)
    if to.is_float:
        return (converted(x, to),)
    mode, keeps = str(call.settings["rounding_mode"]), bool(call.settings["saturate"])
    return (each(lambda value: _integer(value, to, mode, saturate=keeps), x),)


def _named(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    """Return the type that the setting ``to`` names."""
    del declared
    to = call.settings["to"]
    return [to] if isinstance(to, DType) else []


def _integer(value: Any, to: DType, mode: str, *, saturate: bool) -> int:
    whole = _whole(value, mode) if isinstance(value, float) else int(value)
    if to.name == "t1":
        return -1 if whole < 0 else 1
    if saturate or to.kind is Kind.TERNARY:
        return clipped(whole, to)
    return int(whole) if math.isfinite(whole) else 0


def _fill(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    dtype, value = call.outputs[0].dtype, call.settings["value"]
    kind = np.float64 if dtype.is_float else np.bool_ if dtype.kind is Kind.BOOL else object
    return (np.full(np.asarray(inputs[0]).shape, value, dtype=kind),)


def _without_sign(call: OpCall) -> Iterator[Element]:
    """Yield what is 0 once it is rounded, and NaN, where t1 is to hold a sign and nothing else is said."""
    if call.settings["to"] is not T1 or call.settings["saturate"]:
        return
    mode = str(call.settings["rounding_mode"])
    for value in (0.0, -0.25, 0.5, 0.75, math.nan):
        if math.isnan(value) or _whole(value, mode) == 0:
            yield Element(0, value)


ORACLES: dict[str, Oracle] = {"cast": _cast, "fill": _fill}

RESULT_TYPES: dict[str, ResultTypes] = {
    "cast": _named,
}

REFUSED: dict[str, RefusedElements] = {
    "cast": _without_sign,
}
