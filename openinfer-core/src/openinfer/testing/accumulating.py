"""What the setting ``acc`` does to an exact result (``specification: dtypes.accumulators``)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F64, DType, Kind
from openinfer.ops.calls import compute_type
from openinfer.testing.values import exact, stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue
    from openinfer.testing.oracle import Exact


def accumulated(values: Exact, settings: Mapping[str, SettingValue], out: DType) -> Exact:
    """Return a result as the accumulator stores it: with ``acc=[A, O]`` it is converted from A to O as by
    ``cast``; otherwise it goes to the output's type directly. What accumulates in a low float does so in f32, and is
    rounded once."""
    listed = settings.get("acc")
    if not isinstance(listed, tuple) or len(listed) < 2 or not isinstance(listed[0], DType):
        return values
    held = compute_type(listed[0])
    return converted(exact(stored(values, held), held), out)


def converted(values: Exact, out: DType) -> Exact:
    """Return values converted as by ``cast`` with its defaults: fractions dropped, integers clamped to the range."""
    if out.is_float:
        return values.astype(np.float64) if values.dtype != object or out is F64 else _as_f32(values)
    whole = np.empty(values.shape, dtype=object)
    whole.reshape(-1)[:] = [clipped(value, out) for value in values.reshape(-1).tolist()]
    return whole


def _as_f32(integers: Exact) -> Exact:
    """Return integers rounded once to f32, to nearest and ties to even, as doubles."""
    rounded = np.empty(integers.shape)
    rounded.reshape(-1)[:] = [_nearest_f32(int(value)) for value in integers.reshape(-1).tolist()]
    return rounded


def _nearest_f32(value: int) -> float:
    step = 1 << max(abs(value).bit_length() - 24, 0)
    return float(round(Fraction(value, step)) * step)


def clipped(value: float, out: DType) -> int:
    """Return the integer of a type that is nearest to a number without its fraction; 0 for NaN."""
    low, high = (0, 255) if out.minimum is None or out.maximum is None else (out.minimum, out.maximum)
    if value != value:
        return 0
    return int(max(low, min(high, value)))


def may_accumulate(dtype: DType, settings: Mapping[str, SettingValue]) -> bool:
    """Return whether elements of a type may be accumulated as ``acc`` says: in a float at least as wide, an integer of
    their sign that is wider and of whole bytes, for ternaries a signed one; and then be converted to any number."""
    given = settings.get("acc")
    if given is None:
        return True
    wide, *after = (each for each in (given if isinstance(given, tuple) else (given,)) if isinstance(each, DType))
    if after and after[0].kind is Kind.TERNARY:
        return False
    if dtype.is_float:
        return wide.is_float and wide.bits >= dtype.bits
    if dtype.kind is Kind.TERNARY:
        return wide.kind is Kind.SIGNED and wide.bits >= 8
    return wide.kind is dtype.kind and dtype.is_integer and wide.bits >= 8 and wide.bits > dtype.bits
