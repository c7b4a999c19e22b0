"""Activations and softmax."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.requantising import (
    activated,
    bounded,
    differences,
    requantised,
    rounded,
    same_parameters,
    within_bounds,
)
from openinfer.importers.tflite_files.through_reals import through_reals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.importers.onnx_files.values import Value


def _bound(name: str) -> Callable[[Node], Value]:
    """Return a translator for an activation that only bounds its input."""

    def translated(node: Node) -> Value:
        if not node.is_quantised:
            return node.elementwise(lambda x: bounded(node, x, name))
        tensor = node.results[0]
        if same_parameters(node.tensor(0), tensor):
            return node.elementwise(lambda x: within_bounds(node, x, tensor, name))
        scale = np.asarray(node.parameters(node.tensor(0)).scale[0])

        def codes(x: Value) -> Value:
            return within_bounds(node, requantised(node, differences(node, 0, x), scale, clips=False), tensor, name)

        return node.elementwise(codes)

    return translated


def _softmax_of_reals(node: Node) -> Value:
    x, beta = node.given(0), _beta(node)
    return node.call("softmax", x if beta == 1.0 else node.call("mul", x, node.number(beta, x.dtype)))


def _beta(node: Node) -> float:
    beta = float(node.option("Beta", 1.0))
    if not 0 < beta < math.inf:
        node.refuse(f"Beta is {beta}, expected a positive number")
    return beta


_wide_softmax = through_reals(_softmax_of_reals)


def _softmax(node: Node) -> Value | Sequence[Value]:
    """Softmax over the last dim; of codes of 8 bits by a table of 256 powers of e, as LiteRT computes it."""
    x, beta = node.given(0), _beta(node)
    if not node.is_quantised or x.dtype.bits != 8 or node.results[0].dtype.bits != 8:
        return _wide_softmax(node)
    step = np.float32(node.parameters(node.tensor(0)).scale[0]) * np.float32(beta)
    powers = np.exp(-step * np.arange(256, dtype=np.float32)).astype(np.float32)
    wide = node.call("cast", x, to=I32)
    greatest = node.call("max_axis", wide, axes=(-1,), keepdims=True)
    terms = node.call("gather", node.constant(powers, "softmax.powers"), node.call("sub", greatest, wide))
    total = node.call("sum_axis", terms, axes=(-1,), keepdims=True)
    result = node.results[0]
    weight = node.call("mul", total, node.number(float(node.parameters(result).scale[0]), F32))
    return rounded(node, node.call("mul", terms, node.call("recip", weight)), result)


def _log_softmax(node: Node) -> Value:
    return node.call("log_softmax", node.given(0))


def _l2_normalization(node: Node) -> Value:
    return activated(node, node.call("l2_norm", node.given(0)))


TRANSLATORS = MappingProxyType(
    {
        "L2_NORMALIZATION": through_reals(_l2_normalization),
        "LOG_SOFTMAX": through_reals(_log_softmax),
        "RELU": _bound("RELU"),
        "RELU6": _bound("RELU6"),
        "RELU_0_TO_1": _bound("RELU_0_TO_1"),
        "RELU_N1_TO_1": _bound("RELU_N1_TO_1"),
        "SOFTMAX": _softmax,
    }
)
