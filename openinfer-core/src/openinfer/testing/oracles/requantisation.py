"""Requantisation in fixed point, in Python's integers, as the functions of gemmlowp and TensorFlow Lite are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.result_types import of_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.ops.calls import OpCall
    from openinfer.testing.elements import Place
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes

_I32 = (-(1 << 31), (1 << 31) - 1)


def _within(value: int, limits: tuple[int, int]) -> int:
    return min(max(value, limits[0]), limits[1])


def _wrapped(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def rounding_doubling_high_product(a: int, b: int) -> int:
    """Return gemmlowp's ``SaturatingRoundingDoublingHighMul`` of two i32."""
    if a == b == _I32[0]:
        return _I32[1]
    product = a * b
    nudge = 1 << 30 if product >= 0 else 1 - (1 << 30)
    # Division of C rounds towards zero.
    quotient = abs(product + nudge) >> 31
    return quotient if product + nudge >= 0 else -quotient


def rounding_divide_by_power(x: int, exponent: int) -> int:
    """Return gemmlowp's ``RoundingDivideByPOT``."""
    mask = (1 << exponent) - 1
    threshold = (mask >> 1) + (1 if x < 0 else 0)
    return (x >> exponent) + (1 if x & mask > threshold else 0)


def scaled(x: int, multiplier: int, shift: int, mode: str, bits: int = 32) -> int:
    """Return TensorFlow Lite's ``MultiplyByQuantizedMultiplier`` of a total of 32 or 64 bits."""
    shift = _within(shift, (-31, 14 if bits == 64 else 30))
    if bits == 64:
        reduced = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
        places = 15 - shift
        return _within(_wrapped(x * reduced + (1 << (places - 1)), 64) >> places, _I32)
    if mode == "fixed":
        places = 31 - shift
        return _within((x * multiplier + (1 << (places - 1))) >> places, _I32)
    left, right = max(shift, 0), max(-shift, 0)
    return rounding_divide_by_power(rounding_doubling_high_product(_wrapped(x << left, 32), multiplier), right)


def _requantize(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    arrays = np.broadcast_arrays(*(np.asarray(values) for values in inputs))
    mode, out = str(call.settings["mode"]), call.outputs[0].dtype
    limits = int(out.minimum or 0), int(out.maximum or 0)
    width = next(kind.dtype.bits for kind in call.inputs if kind is not None)

    def rule(place: Place) -> int:
        x, multiplier, shift, zero = (int(array[place]) for array in arrays)
        return _within(scaled(x, multiplier, shift, mode, width) + zero, limits)

    return Elements(arrays[0].shape, object, rule)


ORACLES: dict[str, Oracle] = {"requantize": ByElement(_requantize)}

RESULT_TYPES: dict[str, ResultTypes] = {"requantize": of_input(3)}
