"""What the operators compute, written with NumPy: the conformance kit compares every device with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plugin import OpCall
    from openinfer.testing.oracle import Exact


def leaky_square(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    """Return the result in double precision; the kit rounds it to the type of the output."""
    (x,) = inputs
    slope = call.settings["slope"]
    assert x is not None
    assert isinstance(slope, float)
    return (np.where(x >= 0, x * x, slope * x),)


def row_products(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    """Return the result in double precision, or in Python's integers."""
    del call
    a, b = inputs
    assert a is not None
    assert b is not None
    return (a @ b.T,)
