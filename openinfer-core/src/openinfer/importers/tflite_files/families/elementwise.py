"""Operators of single elements: of one input, of two, and comparisons."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I32
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import (
    activated,
    activation,
    differences,
    requantised,
    within_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.importers.onnx_files.values import Value


def _sum(op: str, sign: int) -> Callable[[Node], Value]:
    """Return a translator for a sum or a difference."""

    def translated(node: Node) -> Value:
        if not is_quantised(node.results[0]):
            return node.pairwise(lambda a, b: activated(node, node.call(op, a, b)))
        return node.pairwise(lambda a, b: _sum_of_codes(node, a, b, sign))

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


def _mul(node: Node) -> Value:
    if not is_quantised(node.results[0]):
        return node.pairwise(lambda a, b: activated(node, node.call("mul", a, b)))
    scale = node.parameters(node.tensor(0)).scale[0] * node.parameters(node.tensor(1)).scale[0]

    def product(a: Value, b: Value) -> Value:
        total = node.call("mul", differences(node, 0, a), differences(node, 1, b))
        return requantised(node, total, np.asarray(scale))

    return node.pairwise(product)


TRANSLATORS = MappingProxyType({"ADD": _sum("add", 1), "MUL": _mul, "SUB": _sum("sub", -1)})
