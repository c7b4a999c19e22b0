"""Operators without a form in integers: codes become reals, and the result becomes codes again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import F32
from openinfer.importers.onnx_files.values import Value
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import codes_of, real_of, same_parameters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.importers.tflite_files.node import Translator
    from openinfer.importers.tflite_files.source import Tensor


def through_reals(translator: Translator) -> Callable[[Node], Sequence[Value]]:
    """Return a translator that dequantises inputs and quantises results, if the operator is of integers."""

    def translated(node: Node) -> Sequence[Value]:
        if not any(tensor is not None and is_quantised(tensor) for tensor in (*node.tensors, *node.results)):
            return _listed(translator(node))
        made = _listed(translator(_of_reals(node)))
        return [_codes(node, value, tensor) for value, tensor in zip(made, node.results, strict=False)]

    return translated


def on_codes(translator: Translator) -> Translator:
    """Return a translator of what only moves elements: on codes where inputs and results have the same scales."""
    slow = through_reals(translator)

    def translated(node: Node) -> Sequence[Value]:
        tensors = [tensor for tensor in (*node.tensors, *node.results) if tensor is not None and is_quantised(tensor)]
        if all(same_parameters(tensors[0], tensor) for tensor in tensors):
            return _listed(translator(node))
        return slow(node)

    return translated


def _listed(made: Value | Sequence[Value]) -> Sequence[Value]:
    return [made] if isinstance(made, Value) else list(made)


def _of_reals(node: Node) -> Node:
    inputs = [
        value if value is None or tensor is None else _real(node, value, tensor)
        for value, tensor in zip(node.inputs, node.tensors, strict=True)
    ]
    tensors = [None if tensor is None else _described(tensor) for tensor in node.tensors]
    results = tuple(map(_described, node.results))
    return replace(node, inputs=tuple(inputs), tensors=tuple(tensors), results=results)


def _real(node: Node, value: Value, tensor: Tensor) -> Value:
    if not node.order.has_planes(value):
        return real_of(node, value, tensor)
    return node.order.image(real_of(node, node.order.planes(value), tensor))


def _codes(node: Node, value: Value, tensor: Tensor) -> Value:
    if not is_quantised(tensor) or not node.order.has_planes(value):
        return codes_of(node, value, tensor)
    return node.order.image(codes_of(node, node.order.planes(value), tensor))


def _described(tensor: Tensor) -> Tensor:
    return replace(tensor, dtype=F32, quantisation=None) if is_quantised(tensor) else tensor
