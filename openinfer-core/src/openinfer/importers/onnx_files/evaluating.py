"""Nodes whose inputs are all known, computed by ONNX's reference evaluator."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files import failures
from openinfer.importers.onnx_files.elements import array_type, number_of, stored_form
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.importers.onnx_files.node import Node
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Call, Value
    from openinfer.plugins.environment import Environment

MOST_FOLDED = 1 << 16
"""Elements of the largest result that is computed at import; larger ones are left to the program."""

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

_LAYERS = frozenset({"attention", "convolution", "normalisation", "pooling", "recurrent"})
"""Categories of operators that the evaluator computes for some versions, ranks and values alone: LogSoftmax as since
opset 13, GlobalMaxPool over one axis of three, batch norms of matrices as of images, and pools without NaN."""

_MISCOMPUTED = frozenset(
    {"Det", "DynamicQuantizeLinear", "Erf", "GRU", "Gelu", "HardSwish", "LSTM", "LpNormalization"}
    | {"MeanVarianceNormalization", "OneHot", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RNN"}
    | {"ReduceL2", "ReduceLogSumExp", "ReduceMean", "Resize", "Shrink", "Upsample"}
)
"""Other operators that it gets wrong: it adds elements of either sign for p=1, multiplies what OneHot does not choose
by zero and rounds what it does, and rounds coordinates. It quantises what is far or not finite to any integer, divides
f16 in f16 before opset 23 too, and gives zeros alone another scale than ONNX Runtime. It rounds quantised products
after it adds the zero point: a half goes to the even code, not to the even number of steps. Erf of f64 has the digits
of f32, as functions with constants have (Gelu, HardSwish), and the logarithm of a sum of zeros is NaN. Integers shrink
by other types than in ONNX Runtime, and sums for means and norms overflow. Gates and pivots of infinite elements
differ."""


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


def evaluates_like(node: Node, calls: Sequence[Call], environment: Environment) -> bool:
    """Whether ONNX's evaluator computes a node as its translation does; what it cannot is left to the program."""
    categories = {environment.op(call.op).category for call in calls if call.op in environment.ops}
    return node.op not in _MISCOMPUTED and not categories & _LAYERS


def have_types_of(values: Sequence[Value | None], results: Sequence[Value | None]) -> bool:
    """Whether values that the evaluator computed have the element types and shapes of a translation's results."""
    return all(
        value is None or result is None or (value.dtype is result.dtype and value.dims == result.dims)
        for value, result in zip(values, results, strict=False)
    )


def computed(node: Node, opsets: Mapping[str, int]) -> list[Value | None] | None:
    """Return the results of a node; None where the evaluator cannot tell."""
    onnx, reference = onnx_module(), onnx_module("onnx.reference")
    names = [name for name in dict.fromkeys(node.source.inputs) if name]
    arrays = {
        name: value.array() for name, value in zip(node.source.inputs, node.inputs, strict=False) if value is not None
    }
    infos = [
        onnx.helper.make_tensor_value_info(name, number_of(onnx, value.dtype), None)
        for name, value in zip(node.source.inputs, node.inputs, strict=False)
        if value is not None and name in names
    ]
    outputs = [name for name in node.source.outputs if name]
    made = [onnx.helper.make_tensor_value_info(name, 0, None) for name in outputs]
    graph = onnx.helper.make_graph([node.source.proto], "node", list({i.name: i for i in infos}.values()), made)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # The mean of no elements is reported as a warning, whatever the state of floats.
            warnings.simplefilter("ignore", RuntimeWarning)
            found = reference.ReferenceEvaluator(model).run(None, _foreign(onnx, node, arrays))
    except (*failures.NUMERIC, *failures.of_onnx()):
        return None  # The program computes it instead.
    return _values(node, dict(zip(outputs, found, strict=True)))


def _foreign(onnx: Any, node: Node, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays with the NumPy types that the evaluator has for packed elements."""
    types = {name: value.dtype for name, value in zip(node.source.inputs, node.inputs, strict=False) if value}
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        dtype = types[name]
        wanted = onnx.helper.tensor_dtype_to_np_dtype(number_of(onnx, dtype)) if dtype.is_packed else array.dtype
        found[name] = np.asarray(array).astype(wanted, copy=False)
    return found


def _values(node: Node, results: Mapping[str, Any]) -> list[Value | None] | None:
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
