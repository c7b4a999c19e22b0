"""What the setting ``acc`` does to an exact result (``specification: dtypes.accumulators``)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F64, DType, Kind
from openinfer.float_formats import FORMATS
from openinfer.ops.calls import compute_type
from openinfer.scalars import round_to
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
    """Return values converted as by ``cast`` with its defaults: to integers without fractions and clamped to the range,
    to floats in one rounding, to nearest and ties to even."""
    if out.is_float:
        if out is F64:
            return values.astype(np.float64)
        round_one = partial(_nearest, out) if values.dtype == object else partial(round_to, out)
        rounded = np.empty(values.shape)
        rounded.reshape(-1)[:] = [round_one(value) for value in values.reshape(-1).tolist()]
        return rounded
    whole = np.empty(values.shape, dtype=object)
    whole.reshape(-1)[:] = [clipped(value, out) for value in values.reshape(-1).tolist()]
    return whole


def _nearest(dtype: DType, value: int) -> float:
    """Return an integer rounded to the significant bits of a float type, of any exponent."""
    step = 1 << max(abs(value).bit_length() - FORMATS[dtype.name].fraction - 1, 0)
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
