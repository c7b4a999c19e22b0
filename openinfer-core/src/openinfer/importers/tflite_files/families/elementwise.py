"""Operators of pairs of elements, comparisons and choices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I32
from openinfer.importers.tflite_files.fixed_point import sum_of_codes
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import (
    activated,
    activation,
    differences,
    requantised,
    within_bounds,
)
from openinfer.importers.tflite_files.through_reals import on_codes, through_reals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Translator


def _sum(op: str, sign: int) -> Translator:
    """Return a translator for a sum or a difference."""

    def of_reals(node: Node) -> Value:
        return node.pairwise(lambda a, b: activated(node, node.call(op, a, b)))

    wide = through_reals(of_reals)

    def translated(node: Node) -> Value | Sequence[Value]:
        tensor = node.results[0]
        if not is_quantised(tensor):
            return of_reals(node)
        if node.rounding != "f32" and tensor.dtype.bits <= 16:
            return node.pairwise(lambda a, b: _sum_in_fixed_point(node, a, b, sign))
        return node.pairwise(lambda a, b: _sum_of_codes(node, a, b, sign)) if tensor.dtype.bits == 8 else wide(node)

    return translated


def _sum_of_codes(node: Node, a: Value, b: Value, sign: int) -> Value:
    """Return a sum of codes as XNNPACK computes it: both ratios of scales as integers of 21 bits, and one shift."""
    tensor = node.results[0]
    first, second, result = (node.parameters(t) for t in (node.tensor(0), node.tensor(1), tensor))
    ratios = first.scale[0] / result.scale[0], second.scale[0] / result.scale[0]
    largest = max(ratios)
    if not 2.0**-10 <= largest < 2.0**8:
        node.refuse(f"scales of inputs are {largest:.3g} of the result's, expected 2^-10 to 2^8")
    shift = 20 - (int(np.frexp(largest)[1]) - 1)
    factors = [int(np.rint(np.ldexp(np.float64(ratio), shift))) for ratio in ratios]
    factors[1] *= sign
    bias = (1 << (shift - 1)) - factors[0] * int(first.zero[0]) - factors[1] * int(second.zero[0])
    terms = [
        node.call("mul", node.call("cast", value, to=I32), node.number(factor, I32))
        for value, factor in zip((a, b), factors, strict=True)
    ]
    total = node.call("add", node.call("add", *terms), node.number(bias, I32))
    code = node.call("add", node.call("shr", total, bits=shift), node.number(int(result.zero[0]), I32))
    return within_bounds(node, node.call("cast", code, to=tensor.dtype), tensor, activation(node))


def _sum_in_fixed_point(node: Node, a: Value, b: Value, sign: int) -> Value:
    codes = sum_of_codes(node, differences(node, 0, a), differences(node, 1, b), sign)
    return within_bounds(node, codes, node.results[0], activation(node))


def _mul_of_reals(node: Node) -> Value:
    return node.pairwise(lambda a, b: activated(node, node.call("mul", a, b)))


def _mul(node: Node) -> Value | Sequence[Value]:
    if not is_quantised(node.results[0]):
        return _mul_of_reals(node)
    first, second = node.parameters(node.tensor(0)), node.parameters(node.tensor(1))
    if node.given(0).dtype.bits + node.given(1).dtype.bits > 16 and (first.zero.any() or second.zero.any()):
        # Products of wider codes less their zero points may leave i32.
        return through_reals(_mul_of_reals)(node)
    # TFLite Micro computes the ratio of all three scales in f64.
    precision = np.float32 if node.rounding == "f32" else np.float64
    scale = precision(first.scale[0]) * precision(second.scale[0])

    def product(a: Value, b: Value) -> Value:
        total = node.call("mul", differences(node, 0, a), differences(node, 1, b))
        return requantised(node, total, np.asarray(scale))

    return node.pairwise(product)


def _pair(op: str) -> Translator:
    """Return a translator for an operator of two inputs that ours is."""
    return lambda node: node.pairwise(lambda a, b: node.call(op, a, b))


def _div(node: Node) -> Value:
    return node.pairwise(lambda a, b: activated(node, node.call("div", a, b)))


def _floor_div(node: Node) -> Value:
    if node.given(0).dtype.is_float:
        return node.pairwise(lambda a, b: node.call("floor", node.call("div", a, b)))
    return node.pairwise(lambda a, b: node.call("floor_div", a, b, mode="floor"))


def _squared_difference(node: Node) -> Value:
    return node.pairwise(lambda a, b: node.call("square", node.call("sub", a, b)))


def _add_n(node: Node) -> Value:
    total = node.given(0)
    for position in range(1, len(node.inputs)):
        total = node.call("add", total, node.given(position))
    return total


def _select(node: Node) -> Value:
    condition, a, b = node.given(0), node.given(1), node.given(2)
    if node.op == "SELECT" and condition.rank == 1 and a.rank > 1:
        condition = node.call("reshape", condition, shape=(-1, *([1] * (a.rank - 1))))
    return node.call("where", condition, a, b)


_COMPARISONS = {
    "EQUAL": "eq",
    "GREATER": "gt",
    "GREATER_EQUAL": "ge",
    "LESS": "lt",
    "LESS_EQUAL": "le",
    "NOT_EQUAL": "ne",
}

TRANSLATORS = MappingProxyType(
    {
        **{name: on_codes(_pair(op)) for name, op in _COMPARISONS.items()},
        "ADD": _sum("add", 1),
        "ADD_N": through_reals(_add_n),
        "BITWISE_XOR": _pair("xor"),
        "DIV": through_reals(_div),
        "FLOOR_DIV": through_reals(_floor_div),
        "FLOOR_MOD": through_reals(_pair("mod")),
        "LOGICAL_AND": _pair("and"),
        "LOGICAL_OR": _pair("or"),
        "MAXIMUM": on_codes(_pair("max")),
        "MINIMUM": on_codes(_pair("min")),
        "MUL": _mul,
        "POW": _pair("pow"),
        "PRELU": through_reals(_pair("prelu")),
        "SELECT": on_codes(_select),
        "SELECT_V2": on_codes(_select),
        "SQUARED_DIFFERENCE": through_reals(_squared_difference),
        "SUB": _sum("sub", -1),
    }
)
