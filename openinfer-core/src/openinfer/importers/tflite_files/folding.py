"""Arithmetic of shapes: integers that are known up to sizes, computed at import."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import of_elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node

    Objects: TypeAlias = npt.NDArray[Any]

_Fold: TypeAlias = "Callable[[Node, Sequence[Objects]], Objects]"


def folded(node: Node) -> Value | None:
    """Return the result of an operator of integers that are known up to sizes; None where it is not one."""
    fold = _FOLDS.get(node.op)
    if fold is None or len(node.results) != 1 or node.results[0].quantisation is not None:
        return None
    arrays: list[Objects] = []
    for value in node.inputs:
        elements = None if value is None or not value.dtype.is_integer else value.integers()
        if value is None or elements is None or value.shape is None:
            return None
        array = np.empty(len(elements), object)
        array[:] = list(elements)
        arrays.append(array.reshape(value.shape))
    if all(is_number(element) for array in arrays for element in array.flat):
        return None
    made = np.asarray(fold(node, arrays), object)
    return of_elements([*made.flat], made.shape, node.results[0].dtype)


def _pairwise(function: Callable[[Any, Any], Any]) -> _Fold:
    return lambda _, arrays: np.frompyfunc(function, 2, 1)(*arrays)


def _product(node: Node, arrays: Sequence[Objects]) -> Objects:
    made = np.empty(1, object)
    made[0] = math.prod(arrays[0].flat)
    return made.reshape((1,) * arrays[0].ndim if node.option("KeepDims", False) else ())


def _part(node: Node, arrays: Sequence[Objects]) -> Objects:
    x, starts, ends, steps = arrays
    if x.ndim != 1 or node.option("EllipsisMask") or node.option("NewAxisMask"):
        raise ValueError("a slice of more than one dim")
    start, end, step = (int(array.flat[0]) for array in (starts, ends, steps))
    if node.option("ShrinkAxisMask") & 1:
        return x[start : start + 1 or None].reshape(())
    bounds = (None if node.option("BeginMask") & 1 else start, None if node.option("EndMask") & 1 else end)
    return x[slice(*bounds, step)]


_FOLDS = MappingProxyType(
    {
        "ADD": _pairwise(operator.add),
        "CAST": lambda _, arrays: arrays[0],
        "CONCATENATION": lambda node, arrays: np.concatenate(arrays, axis=int(node.option("Axis"))),
        "GATHER": lambda node, arrays: np.take(arrays[0], arrays[1].astype(int), axis=int(node.option("Axis"))),
        "MUL": _pairwise(operator.mul),
        "PACK": lambda node, arrays: np.stack(arrays, axis=int(node.option("Axis"))),
        "REDUCE_PROD": _product,
        "RESHAPE": lambda _, arrays: arrays[0].reshape([int(extent) for extent in arrays[1].flat]),
        "STRIDED_SLICE": _part,
        "SUB": _pairwise(operator.sub),
    }
)
"""Folds by operator; each returns an array of integers and sizes."""
