"""Codes by multipliers in fixed point, as TensorFlow Lite's reference kernels and TFLite Micro compute them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I32

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node

_FRACTION, _LEAST, _MOST = 31, -31, 30


def multiplier_of(real: float) -> tuple[int, int]:
    """Return a positive factor as a multiplier with 31 bits after the point and a shift (``QuantizeMultiplier``)."""
    mantissa, shift = math.frexp(real)
    # Halves are rounded up, and Python's `round` has them even.
    multiplier = math.floor(mantissa * (1 << _FRACTION) + 0.5)
    if multiplier == 1 << _FRACTION:
        multiplier, shift = multiplier // 2, shift + 1
    if shift < _LEAST:
        return 0, 0
    return (multiplier, shift) if shift <= _MOST else ((1 << _FRACTION) - 1, _MOST)


def rescaled(node: Node, total: Value, factor: Array, dtype: DType, zero: int = 0) -> Value:
    """Return totals times a factor, in a shape that broadcasts against them, plus a zero point, within a type."""
    pairs = [multiplier_of(float(real)) for real in np.asarray(factor, np.float64).reshape(-1)]
    return scaled_by(node, total, pairs, np.shape(factor), dtype, zero)


def scaled_by(
    node: Node, total: Value, pairs: list[tuple[int, int]], shape: tuple[int, ...], dtype: DType, zero: int = 0
) -> Value:
    """Return the same by multipliers and shifts."""
    multipliers = node.constant(np.array([pair[0] for pair in pairs], np.int32).reshape(shape))
    shifts = node.constant(np.array([pair[1] for pair in pairs], np.int8).reshape(shape))
    if shape:
        multipliers, shifts = node.part(multipliers, "multiplier"), node.part(shifts, "shift")
    mode = "tflite" if node.rounding == "f32" else node.rounding
    return node.call("requantize", total, multipliers, shifts, node.number(zero, dtype), mode=mode)


def sum_of_codes(node: Node, a: Value, b: Value, sign: int) -> Value:
    """Return a sum or difference of differences of codes from their zero points, as codes of the result.

    Both are brought to twice the larger scale, with as many bits below as i32 has room for.
    """
    tensor = node.results[0]
    result = node.parameters(tensor)
    scales = [float(node.parameters(node.tensor(position)).scale[0]) for position in range(2)]
    largest, bits = 2 * max(scales), 20 if tensor.dtype.bits == 8 else 15
    terms = [
        rescaled(node, node.call("shl", value, bits=bits), np.asarray(scale / largest), I32)
        for value, scale in zip((a, b), scales, strict=True)
    ]
    total = node.call("add" if sign > 0 else "sub", *terms)
    factor = largest / ((1 << bits) * float(result.scale[0]))
    return rescaled(node, total, np.asarray(factor), tensor.dtype, int(result.zero[0]))


def mean_of_codes(node: Node, total: Value, factor: float, count: int) -> Value:
    """Return sums of differences of codes, divided by how many they are, as codes of the result."""
    tensor = node.results[0]
    multiplier, shift = multiplier_of(factor)
    # The quotient of the multiplier keeps as many bits as the count takes away.
    places = min(count.bit_length() - 1, 32, _FRACTION + shift)
    pair = (multiplier << places) // count, shift - places
    return scaled_by(node, total, [pair], (), tensor.dtype, int(node.parameters(tensor).zero[0]))
