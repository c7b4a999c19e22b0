"""Products of matrices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.tflite_files.families.windows import (
    integer_products,
    real_weight,
    scales_of_products,
    with_bias,
)
from openinfer.importers.tflite_files.image_order import permuted
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import activated, requantised
from openinfer.importers.tflite_files.through_reals import through_reals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value


def _fully_connected(node: Node) -> Value:
    if node.choice("WeightsFormat", ("DEFAULT", "SHUFFLED4x16INT8")) != "DEFAULT":
        node.refuse("shuffled weights")
    x, w, bias = node.given(0), node.given(1), node.input(2)
    if w.rank != 2:
        node.refuse(f"the weight has {w.rank} dims, expected 2")
    w = node.part(w, "weight")
    w = permuted(node.emit, w, (1, 0)) if node.is_quantised else real_weight(node, w, (1, 0))
    bias = None if bias is None else node.part(bias, "bias")
    rows = x
    if not node.option("KeepNumDims", False) and x.rank != 2:
        rows = node.call("reshape", x, shape=(-1, w.dims[0]))
    if not node.is_quantised:
        return activated(node, node.call("linear", rows, w, bias))
    total = integer_products(node, "matmul_integer", rows, w)
    if bias is not None:
        total = with_bias(node, total, bias)
    return requantised(node, total, _scale_of_products(node))


def _batch_matmul(node: Node) -> Value:
    settings: dict[str, Setting] = {
        setting: True for setting, name in (("trans_a", "AdjX"), ("trans_b", "AdjY")) if node.option(name, False)
    }
    _check_matrices(node)
    return node.call("matmul", node.given(0), node.given(1), **settings)


_of_reals = through_reals(_batch_matmul)


def _integer_batch_matmul(node: Node) -> Value | Sequence[Value]:
    tensors = node.tensor(0), node.tensor(1), node.results[0]
    if not all(is_quantised(tensor) and tensor.dtype.bits == 8 for tensor in tensors):
        return _of_reals(node)
    _check_matrices(node)
    a, b = (
        _transposed(node, node.given(position)) if node.option(name, False) else node.given(position)
        for position, name in enumerate(("AdjX", "AdjY"))
    )
    node.parameters(tensors[1])
    return requantised(node, integer_products(node, "matmul_integer", a, b), _scale_of_products(node))


def _scale_of_products(node: Node) -> Array:
    """Return the real value of one step of a product, or one for each channel, which matrices of one scale have in f32.

    TFLite multiplies two scales in f32 and divides in f64; those of channels it multiplies in f64.
    """
    weight = node.tensor(1).quantisation
    if weight is None or weight.scale.size > 1:
        return scales_of_products(node)
    factor = node.parameters(node.tensor(0)).scale[0] * weight.scale[0]
    return np.asarray(factor, np.float32 if node.rounding == "f32" else np.float64)


def _check_matrices(node: Node) -> None:
    if any(node.given(position).rank < 2 for position in (0, 1)):
        node.refuse("of vectors")


def _transposed(node: Node, value: Value) -> Value:
    return permuted(node.emit, value, (*range(value.rank - 2), value.rank - 1, value.rank - 2))


TRANSLATORS = MappingProxyType({"BATCH_MATMUL": _integer_batch_matmul, "FULLY_CONNECTED": _fully_connected})
