"""Nodes whose inputs are all known, computed at import."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import F32
from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files import failures
from openinfer.importers.onnx_files.constant_calls import evaluated
from openinfer.importers.onnx_files.elements import array_type, number_of, stored_form
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Call, Value
    from openinfer.plugins.environment import Environment

MOST_FOLDED = 1 << 16
"""Elements of the largest result that is computed at import; larger ones are left to the program."""

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def may_be_computed(node: Node) -> bool:
    """Whether the inputs of a node are known and few, and its results are always the same."""
    if node.source.domain or node.op in _RANDOM or _is_quantised_weight(node):
        return False
    given = [value.payload for value in node.inputs if value is not None]
    return all(payload is not None and payload.count <= MOST_FOLDED for payload in given)


def _is_quantised_weight(node: Node) -> bool:
    """Whether a node dequantises a matrix or more: what is stored in few bits stays so."""
    given = node.input(0)
    return node.op == "DequantizeLinear" and given is not None and given.rank > 1


def as_translated(
    node: Node, calls: Sequence[Call], results: Sequence[Value | None], environment: Environment
) -> list[Value | None] | None:
    """Return the results that the translation of a node computes; None where that is left to the program."""
    arrays = evaluated(calls, results, environment)
    if arrays is None:
        return None
    names = (*node.source.outputs, *("" for _ in results))
    return [
        value if value is None or array is None or value.is_known else known(array, value.dtype, value.name or name)
        for value, array, name in zip(results, arrays, names, strict=False)
    ]


def computed(node: Node, opsets: Mapping[str, int]) -> list[Value | None] | None:
    """Return what ONNX's reference evaluator says of a node without a translation; None where it cannot tell.

    It rounds every step of arithmetic to f16 or bf16, and works on f32 here: results are rounded once.
    """
    onnx, reference = onnx_module(), onnx_module("onnx.reference")
    operands = {
        name: value for name, value in zip(node.source.inputs, node.inputs, strict=False) if value is not None and name
    }
    narrow = next((value.dtype for value in operands.values() if value.dtype.is_low_float), None)
    infos = [
        onnx.helper.make_tensor_value_info(name, number_of(onnx, _wide(value.dtype)), None)
        for name, value in operands.items()
    ]
    outputs = [name for name in node.source.outputs if name]
    made = [onnx.helper.make_tensor_value_info(name, 0, None) for name in outputs]
    graph = onnx.helper.make_graph([node.source.proto], "node", infos, made)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    arrays = {name: _foreign(onnx, value) for name, value in operands.items()}
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # The mean of no elements is reported as a warning, whatever the state of floats.
            warnings.simplefilter("ignore", RuntimeWarning)
            results = reference.ReferenceEvaluator(model).run(None, arrays)
    except (*failures.NUMERIC, *failures.of_onnx()):
        return None
    return _values(node, dict(zip(outputs, results, strict=True)), narrow)


def _wide(dtype: DType) -> DType:
    return F32 if dtype.is_low_float else dtype


def _foreign(onnx: Any, value: Value) -> Array:
    """Return the numbers of a value with the NumPy type that the evaluator has for them."""
    dtype = _wide(value.dtype)
    array = value.array()
    if dtype.is_packed:
        return array.astype(onnx.helper.tensor_dtype_to_np_dtype(number_of(onnx, dtype)))
    return array.astype(storage_dtype(dtype), copy=False)


def _values(node: Node, results: Mapping[str, Any], narrow: DType | None) -> list[Value | None] | None:
    values: list[Value | None] = []
    for name in node.source.outputs:
        array = results.get(name)
        if array is None:
            values.append(None)
            continue
        if not hasattr(array, "dtype"):
            return None
        held: Array = np.asarray(array)
        try:
            dtype = array_type(held)
        except ModelImportError:
            return None
        if narrow is not None and dtype is F32:
            dtype = narrow
        values.append(known(stored_form(held, dtype), dtype, name))
    return values


def sizes_of(results: Sequence[Value | None]) -> int | None:
    """Return how many elements results have together; None where that depends on sizes."""
    total = 0
    for value in results:
        if value is None:
            continue
        shape = value.shape
        if shape is None:
            return None
        count = 1
        for extent in shape:
            count *= extent
        total += count
    return total
