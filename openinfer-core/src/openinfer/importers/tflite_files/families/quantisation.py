"""Conversions between reals and the integers that stand for them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import BOOL, F16, F32, I32
from openinfer.importers.onnx_files.values import known
from openinfer.importers.tflite_files.fixed_point import rescaled
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import codes_of, differences, real_of

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


def _quantize(node: Node) -> Value:
    """Codes of reals, or those of other codes."""
    tensor = node.results[0]
    if not node.is_quantised:
        return node.elementwise(lambda x: codes_of(node, x, tensor))
    if node.rounding != "f32":
        return node.elementwise(lambda x: _in_fixed_point(node, x))
    ratio = node.parameters(node.tensor(0)).scale[0] / node.parameters(tensor).scale[0]
    if not 2.0**-8 <= ratio <= 2.0**7 or max(node.tensor(0).dtype.bits, tensor.dtype.bits) > 8:
        return node.elementwise(lambda x: codes_of(node, real_of(node, x, node.tensor(0)), tensor))
    return node.elementwise(lambda x: _rescaled(node, x, int(np.rint(256 * ratio))))


def _in_fixed_point(node: Node, x: Value) -> Value:
    tensor = node.results[0]
    source, result = node.parameters(node.tensor(0)), node.parameters(tensor)
    factor = np.asarray(float(source.scale[0]) / float(result.scale[0]))
    return rescaled(node, differences(node, 0, x), factor, tensor.dtype, int(result.zero[0]))


def _rescaled(node: Node, x: Value, factor: int) -> Value:
    """Return codes of another scale as XNNPACK computes them: their ratio has 8 bits of fraction."""
    tensor = node.results[0]
    bias = 256 * int(node.parameters(tensor).zero[0]) + 128
    product = node.call("mul", differences(node, 0, x), node.number(factor, I32))
    code = node.call("shr", node.call("add", product, node.number(bias, I32)), bits=8)
    return node.call("cast", code, to=tensor.dtype)


def _dequantize(node: Node) -> Value:
    x = node.given(0)
    if x.dtype is F16:
        # Converters store weights in f16 and dequantise them when a model is loaded.
        return known(x.array().astype(np.float32), F32, x.name) if x.payload else node.call("cast", x, to=F32)
    if not is_quantised(node.tensor(0)):
        node.refuse(f"{x.dtype} without a scale")
    return node.elementwise(lambda value: real_of(node, value, node.tensor(0)))


def _cast(node: Node) -> Value:
    x, to = node.given(0), node.results[0].dtype
    if x.dtype is to:
        return x
    if to is BOOL:
        return node.call("ne", x, node.number(0, x.dtype))
    # C converts integers to narrower ones by leaving bits out.
    wraps = {"saturate": False} if x.dtype.is_integer and to.is_integer else {}
    return node.elementwise(lambda value: node.call("cast", value, to=to, **wraps))


TRANSLATORS = MappingProxyType({"CAST": _cast, "DEQUANTIZE": _dequantize, "QUANTIZE": _quantize})
