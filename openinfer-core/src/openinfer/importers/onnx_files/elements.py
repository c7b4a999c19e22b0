"""Element types of ONNX in OpenInfer, and the numbers of its tensors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL, BY_NAME, DType
from openinfer.errors import ModelImportError

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array, Payload
    from openinfer.scalars import Scalar

NAMES = {
    "BFLOAT16": "bf16",
    "BOOL": "bool",
    "DOUBLE": "f64",
    "FLOAT": "f32",
    "FLOAT16": "f16",
    "FLOAT8E5M2": "f8",
    **{f"INT{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
"""Element types by the names in ONNX's enumeration; OpenInfer has no counterpart for the others."""


MOST_UNIFORM = 4096
"""Elements of the largest constant that is checked for being one number all over."""


def element_type(onnx: Any, number: int) -> DType | None:
    """Return the element type of a number in ONNX's enumeration; None where OpenInfer has none."""
    return BY_NAME.get(NAMES.get(element_name(onnx, number), ""))


def element_name(onnx: Any, number: int) -> str:
    """Return the name of a number in ONNX's enumeration."""
    try:
        return str(onnx.TensorProto.DataType.Name(number))
    except ValueError:
        return str(number)


def number_of(onnx: Any, dtype: DType) -> int:
    """Return the number of an element type in ONNX's enumeration."""
    name = next(name for name, ours in NAMES.items() if ours == dtype.name)
    return int(getattr(onnx.TensorProto, name))


def stored_form(array: Array, dtype: DType) -> Array:
    """Return an array with the NumPy type in which OpenInfer holds elements of ``dtype``."""
    wanted = storage_dtype(dtype)
    return array if array.dtype == wanted else array.astype(wanted)


def array_type(array: Array) -> DType:
    """Return the element type of a NumPy array, those of ``ml_dtypes`` included.

    Raises:
        ModelImportError: OpenInfer has none for it.
    """
    name = array.dtype.name
    short = {"bfloat16": "bf16", "float8_e5m2": "f8", "bool": "bool"}
    for kind, letter in (("uint", "u"), ("int", "i"), ("float", "f")):
        if name.startswith(kind) and name[len(kind) :].isdigit():
            short[name] = letter + name[len(kind) :]
    found = BY_NAME.get(short.get(name, ""))
    if found is None:
        raise ModelImportError(f"OpenInfer has no element type for {name}", code="import-unsupported")
    return found


def scalar_of(array: Array, dtype: DType) -> int | float | bool:
    """Return the one element of an array as a Python number."""
    value = np.asarray(array).reshape(-1)[0]
    if dtype.is_float:
        return float(value)
    return bool(value) if dtype is BOOL else int(value)


def uniform(payload: Payload) -> Scalar | None:
    """Return the number that a constant is all over; None where it is not, or is large."""
    if not 1 <= payload.count <= MOST_UNIFORM:
        return None
    array = payload.load().reshape(-1)
    first = scalar_of(array[:1], payload.dtype)
    if isinstance(first, float) and (math.isnan(first) or (not first and math.copysign(1, first) < 0)):
        return None
    return first if bool(np.all(array == array[0])) else None
