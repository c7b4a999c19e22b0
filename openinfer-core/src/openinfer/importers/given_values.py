"""Values that people give for inputs of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL
from openinfer.errors import ModelImportError

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType


def given_array(name: str, value: Any, dtype: DType) -> npt.NDArray[Any]:
    """Return the value for an input with the NumPy type in which OpenInfer holds its elements.

    Raises:
        ModelImportError: it is not an array of numbers, or an integer type cannot hold one of them.
    """
    wanted = storage_dtype(dtype)
    if isinstance(value, str):
        expected = "a number, true, false, numbers with commas between them, or a file ending in .npy"
        raise ModelImportError(f"the value for input {name!r} is {value!r}, expected {expected}", code="import-value")
    try:
        given = np.asarray(value)
        with np.errstate(invalid="ignore", over="ignore"):
            held = given.astype(wanted)
    except (ValueError, TypeError, OverflowError) as error:
        message = f"the value for input {name!r} does not fit its type {dtype}: {error}"
        raise ModelImportError(message, code="import-value") from error
    if not (dtype.is_integer or dtype is BOOL):
        return held
    changed = np.asarray(held != given)
    if dtype.is_integer:
        changed = changed | (held < dtype.minimum) | (held > dtype.maximum)
    if changed.any():
        first = given[changed].reshape(-1)[0]
        message = f"the value for input {name!r} has the element {first}, which its type {dtype} cannot hold"
        raise ModelImportError(message, code="import-value")
    return held
