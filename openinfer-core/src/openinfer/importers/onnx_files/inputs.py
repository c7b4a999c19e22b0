"""The inputs of a model as values of a program, those that are fixed as constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import ModelImportError
from openinfer.importers.given_values import given_array
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value, known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.importers.onnx_files.dimensions import Dimensions
    from openinfer.importers.onnx_files.source import TensorInfo


def input_values(infos: Sequence[TensorInfo], dimensions: Dimensions, values: dict[str, Any]) -> list[Value]:
    """Return the inputs of a model in their order, those that are fixed as constants.

    Args:
        values: what inputs are fixed to; those are taken out.

    Raises:
        ModelImportError: an input has no element type that OpenInfer has, or does not fit its value; or values are left
            that belong to no input or dimension.
    """
    inputs = [_input_value(info, dimensions, values) for info in infos]
    _refuse_unknown(values, (info.name for info in infos), dimensions)
    return inputs


def _input_value(info: TensorInfo, dimensions: Dimensions, values: dict[str, Any]) -> Value:
    if info.dtype is None or info.kind != "tensor":
        message = f"input {info.name!r} {kind_fault(info.kind.lower())}"
        raise ModelImportError(message, code="import-unsupported")
    if info.name not in values:
        return Value(info.name, info.dtype, dimensions.of(info))
    array = given_array(info.name, values.pop(info.name), info.dtype)
    dims = dimensions.of(info) if info.dims is not None else array.shape
    if array.ndim == 0 and dims:
        shape = tuple(dim if is_number(dim) else 1 for dim in dims)
        array = np.broadcast_to(array, shape)
    wrong = len(dims) != array.ndim or any(
        is_number(dim) and dim != extent for dim, extent in zip(dims, array.shape, strict=False)
    )
    if wrong:
        shown = ", ".join(map(str, dims))
        message = f"the value for input {info.name!r} has shape {list(array.shape)}, expected [{shown}]"
        raise ModelImportError(message, code="import-value")
    return known(array, info.dtype, info.name)


def kind_fault(kind: str) -> str:
    """Return what is wrong with an input of a kind, or of an element type, that OpenInfer does not have."""
    if kind == "string":
        return "holds text, expected numbers: encode it as integers before the model"
    if kind in ("sequence", "optional", "map", "sparse_tensor"):
        return f"is a value of kind {kind}, expected a tensor: export the model with tensors as inputs"
    return f"has elements of type {kind}, which OpenInfer does not have: export the model with another type"


def _refuse_unknown(values: Mapping[str, Any], inputs: Iterable[str], dimensions: Dimensions) -> None:
    if values:
        listed = ", ".join(map(repr, values))
        available = ", ".join([*inputs, *dimensions.names]) or "none"
        message = f"the model has no input or dimension {listed}; it has: {available}"
        raise ModelImportError(message, code="import-value")
