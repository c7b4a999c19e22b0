"""Products of matrices."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.importers.tflite_files.families.windows import (
    integer_products,
    real_weight,
    scales_of_products,
    with_bias,
)
from openinfer.importers.tflite_files.image_order import permuted
from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.requantising import activated, requantised
from openinfer.importers.tflite_files.through_reals import through_reals

if TYPE_CHECKING:
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
    scale = scales_of_products(node)
    return requantised(node, total, scale if scale.size > 1 else scale.reshape(()))


def _batch_matmul(node: Node) -> Value:
    settings: dict[str, Setting] = {
        setting: True for setting, name in (("trans_a", "AdjX"), ("trans_b", "AdjY")) if node.option(name, False)
    }
    if any(node.given(position).rank < 2 for position in (0, 1)):
        node.refuse("of vectors")
    return node.call("matmul", node.given(0), node.given(1), **settings)


TRANSLATORS = MappingProxyType({"BATCH_MATMUL": through_reals(_batch_matmul), "FULLY_CONNECTED": _fully_connected})
