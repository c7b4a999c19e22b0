"""What the setting ``acc`` does to an exact result (element types specification, section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import DType
from openinfer.ops.calls import compute_type
from openinfer.testing.values import exact, stored

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue
    from openinfer.testing.oracle import Exact


def accumulated(values: Exact, settings: Mapping[str, SettingValue], out: DType) -> Exact:
    """Return a result after it was held in the accumulator: with ``acc=[A, O]`` it is converted from A to O as by
    ``cast``; otherwise it goes to the output's type directly. What accumulates in a low float does so in f32, and is
    rounded once."""
    listed = settings.get("acc")
    if not isinstance(listed, tuple) or len(listed) < 2 or not isinstance(listed[0], DType):
        return values
    held = compute_type(listed[0])
    return converted(exact(stored(values, held), held), out)


def converted(values: Exact, out: DType) -> Exact:
    """Return values converted as by ``cast`` with its defaults: fractions dropped, integers held within range."""
    if out.is_float:
        return values.astype(np.float64)
    whole = np.empty(values.shape, dtype=object)
    whole.reshape(-1)[:] = [clipped(value, out) for value in values.reshape(-1).tolist()]
    return whole


def clipped(value: float, out: DType) -> int:
    """Return the integer of a type that is nearest to a number without its fraction; 0 for NaN."""
    low, high = (0, 255) if out.minimum is None or out.maximum is None else (out.minimum, out.maximum)
    if value != value:
        return 0
    return int(max(low, min(high, value)))
