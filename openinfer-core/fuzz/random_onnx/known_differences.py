"""Where onnxruntime differs from the ONNX specification or from exact values, each with the reason.

Elements of results that an entry names are not compared, and neither is what depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx

from random_onnx.graphs import Array

LARGE = 1e3
"""Magnitude from which on a running sum is inexact."""

LARGEST_EXACT = 1 << 53
"""Magnitude up to which f64 holds all integers."""

NEARLY_EQUAL = 1e-3
"""Share of the greatest magnitude up to which a deviation is one of rounding in great part."""

NEAR_ZERO = 1 / 32
"""Magnitude below which an exponential less 1, each rounded, is further off than results may be: by a unit of 1."""

Inputs: TypeAlias = "Sequence[Array | None]"


@dataclass(frozen=True, slots=True)
class Case:
    """A result of a node, as onnxruntime computes it."""

    node: onnx.NodeProto
    opset: int
    inputs: Inputs
    result: Array
    number: int

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute of the node."""
        for attribute in self.node.attribute:
            if attribute.name == name:
                return onnx.helper.get_attribute_value(attribute)
        return default


@dataclass(frozen=True, slots=True)
class Difference:
    """Elements that onnxruntime computes otherwise.

    Attributes:
        operators: where.
        reason: what onnxruntime does, and what is right instead.
        elements: a mask of the result, or whether all of it is meant.
    """

    operators: frozenset[str]
    reason: str
    elements: Callable[[Case], Array | bool]


def unreliable(
    node: onnx.NodeProto, opset: int, inputs: Inputs, result: Array, number: int
) -> tuple[Array | None, list[str]]:
    """Return which elements of a result are not compared, with the reasons."""
    mask, reasons = np.zeros(result.shape, np.bool_), list[str]()
    for difference in DIFFERENCES:
        if node.op_type in difference.operators:
            with np.errstate(all="ignore"):
                part = np.broadcast_to(difference.elements(Case(node, opset, inputs, result, number)), result.shape)
            if part.any():
                mask = mask | part
                reasons.append(f"{node.op_type}: {difference.reason}")
    return (mask, reasons) if reasons else (None, reasons)


def _casts_out_of_range(case: Case) -> Array | bool:
    """Floats that are not in the range of an integer type, and NaN."""
    x = case.inputs[0]
    if x is None or x.dtype.kind != "f" or case.result.dtype.kind not in "iu":
        return False
    limits = np.iinfo(case.result.dtype)
    wide = np.trunc(x.astype(np.float64))
    return ~((wide >= float(limits.min)) & (wide < float(limits.max) + 1))


def _meets_nan(case: Case) -> bool:
    x = case.inputs[0]
    return x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any())


def _scatters_nan(case: Case) -> bool:
    is_compared = case.attribute("reduction", b"none") in (b"min", b"max")
    return is_compared and any(x is not None and x.dtype.kind == "f" and bool(np.isnan(x).any()) for x in case.inputs)


def _overflows_in_f16(case: Case) -> Array | bool:
    if case.result.dtype != np.float16:
        return False
    terms = [np.abs(x.astype(np.float64)) for x in case.inputs if x is not None]
    return np.asarray(np.sum(np.broadcast_arrays(*terms), axis=0) > float(np.finfo(np.float16).max))


def _overflows(case: Case) -> Array | bool:
    """Reductions of integers that may leave the range of their type, or that of exact f64, on the way."""
    x = case.inputs[0]
    if x is None or x.dtype.kind not in "iu":
        return False
    most, wide = min(np.iinfo(x.dtype).max, LARGEST_EXACT), [abs(number) for number in x.reshape(-1).tolist()]
    if case.node.op_type == "ReduceProd":
        return math.prod(max(number, 1) for number in wide) > most
    return sum(number * number if "Square" in case.node.op_type else number for number in wide) > most


def _power_is_rounded(case: Case) -> Array | bool:
    x, y = case.inputs[:2]
    if x is None or y is None or case.result.dtype.kind not in "iu":
        return False
    with np.errstate(all="ignore"):
        size = np.abs(x.astype(np.float64)) ** np.abs(y.astype(np.float64))
    return ~(size < float(min(np.iinfo(case.result.dtype).max, 1 << 53)))


def _is_mean_of_none(case: Case) -> bool:
    x = case.inputs[0]
    return x is not None and not x.size


def _is_wider_than_f32(case: Case) -> Array | bool:
    x = case.inputs[0]
    return x is not None and (x.dtype == np.float64 or (x.dtype.kind in "iu" and x.dtype.itemsize >= 4))


def _skips_rows(case: Case) -> bool:
    kernel = case.attribute("kernel_shape")
    steps = case.attribute("strides", [1] * len(kernel))
    is_same = case.attribute("auto_pad", b"").startswith(b"SAME")
    return is_same and case.result.dtype == np.float16 and any(map(int.__lt__, kernel, steps))


def _is_not_calm(case: Case) -> bool:
    """Values whose squares are not finite, or so large that a running sum keeps nothing of what follows."""
    x = case.inputs[0]
    return x is not None and not bool(np.all(np.abs(x) < LARGE))


def _is_infinite(case: Case) -> Array | bool:
    x = case.inputs[0]
    return x is not None and x.dtype.kind == "f" and np.isinf(x)


def _is_near_zero(case: Case) -> Array | bool:
    x = case.inputs[0]
    if x is None or x.dtype.kind != "f":
        return False
    divisor = case.attribute("alpha", 1.0) if case.node.op_type == "Celu" else 1.0
    return np.asarray(np.abs(x.astype(np.float64) / divisor) < NEAR_ZERO)


def _hardly_deviates(case: Case) -> Array | bool:
    """Rows whose elements are equal, or nearly so."""
    x = case.inputs[0]
    if x is None:
        return False
    axes, wide = tuple(case.attribute("axes", (0, 2, 3))), x.astype(np.float64)
    greatest = np.abs(wide).max(axes, keepdims=True, initial=0)
    return np.asarray(~(wide.std(axes, keepdims=True) > NEARLY_EQUAL * greatest))


def _sums_nothing(case: Case) -> bool:
    """Whether a product or convolution of integers has no terms: there are no columns, or no channels."""
    if "MatMul" in case.node.op_type:
        left = case.inputs[0]
        return left is not None and not left.shape[-1]
    kernel = case.inputs[3 if case.node.op_type == "QLinearConv" else 1]
    return kernel is not None and not math.prod(kernel.shape[1:])


def _adds_in_pairs(case: Case) -> bool:
    """Whether bytes without sign meet bytes with one, and two neighbouring products may have more than 16 bits."""
    x, kernel = case.inputs[0], case.inputs[3 if "QLinear" in case.node.op_type else 1]
    if x is None or kernel is None or x.dtype.kind == kernel.dtype.kind:
        return False
    greatest = [int(np.abs(operand.astype(np.int64)).max(initial=0)) for operand in (x, kernel)]
    return 2 * math.prod(greatest) > np.iinfo(np.int16).max


DIFFERENCES = (
    Difference(
        frozenset({"Cast", "CastLike"}),
        "floats outside of the range of an integer type are converted as C++ does, which leaves the result open",
        _casts_out_of_range,
    ),
    Difference(
        frozenset({"ArgMax", "ArgMin", "Hardmax", "ReduceMax", "ReduceMin"}),
        "comparisons with NaN give one order of its terms or the other, so that NaN is lost or wins",
        _meets_nan,
    ),
    Difference(
        frozenset({"ScatterElements", "ScatterND"}),
        "comparisons with NaN give one order of its terms or the other, so that NaN is lost or wins",
        _scatters_nan,
    ),
    Difference(
        frozenset({"Mean", "Sum"}),
        "terms of f16 are added in f32, so that sums on the way do not overflow; ONNX leaves that open",
        _overflows_in_f16,
    ),
    Difference(
        frozenset({"ReduceL1", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare"}),
        "integers go through f64, which rounds large ones, and those that overflow are saturated or wrapped, depending "
        "on the layout; ONNX says nothing about them",
        _overflows,
    ),
    Difference(
        frozenset({"Pow"}),
        "integers go through f64, which rounds those above 2^53, and the greatest results are converted as C++ does",
        _power_is_rounded,
    ),
    Difference(
        frozenset({"ReduceMean"}),
        "the mean of no elements is 0, and not 0 / 0",
        _is_mean_of_none,
    ),
    Difference(
        frozenset({"Shrink"}),
        "types that are wider than f32 are computed in f32",
        _is_wider_than_f32,
    ),
    Difference(
        frozenset({"QuantizeLinear"}),
        "NaN becomes whatever the conversion of C++ leaves; ONNX does not define it",
        lambda case: case.inputs[0] is not None and np.isnan(case.inputs[0]),
    ),
    Difference(
        frozenset({"Sign"}),
        "NaN of f16 has the sign 0, that of f32 and f64 is NaN as ONNX says",
        lambda case: case.inputs[0] is not None and case.result.dtype == np.float16 and np.isnan(case.inputs[0]),
    ),
    Difference(
        frozenset({"AveragePool"}),
        "f16 is padded by less than nothing where a stride is longer than the kernel; f32 and ONNX pad by nothing",
        _skips_rows,
    ),
    Difference(
        frozenset({"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}),
        "sums of no products are what was in memory before, and not 0, which is quantised to the zero point",
        _sums_nothing,
    ),
    Difference(
        frozenset({"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"}),
        "products of bytes with and without sign are added in pairs of 16 bits, which saturate, on x86 without VNNI",
        _adds_in_pairs,
    ),
    Difference(
        frozenset({"Gelu", "HardSwish"}),
        "f64 is computed with constants of f32",
        lambda case: case.result.dtype == np.float64,
    ),
    Difference(
        frozenset({"GroupNormalization"}),
        "rows of f64 are computed in f32, as the function with stash_type=1 is written, and not in f64",
        lambda case: case.result.dtype == np.float64,
    ),
    Difference(
        frozenset({"MeanVarianceNormalization"}),
        "nothing is added to a deviation: equal elements are 0 / 0, or 1 where their mean is rounded",
        _hardly_deviates,
    ),
    Difference(
        frozenset({"LRN"}),
        "squares are summed as the window moves on, so that one that is large spoils what follows",
        _is_not_calm,
    ),
    Difference(
        frozenset({"Clip"}),
        "a bound that is left out is the greatest finite number; the function that defines Clip keeps infinities",
        _is_infinite,
    ),
    Difference(
        frozenset({"Dropout"}),
        "the mask of versions before 12 is false in inference, where ONNX leaves it open",
        lambda case: case.number == 1 and case.opset < 12,
    ),
    Difference(
        frozenset({"Elu", "Selu", "Celu"}),
        "exp(x) - 1 is computed as written, so that small results have only the digits that cancellation leaves",
        _is_near_zero,
    ),
)
"""Every difference."""
