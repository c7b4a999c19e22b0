"""Further tensors of a quantised one: its scales, its zero points and its reals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BY_NAME, F32
from openinfer.errors import ModelError
from openinfer.model.arrays import read_only
from openinfer.model.store import VarInfo
from openinfer.packing import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.dtypes import DType
    from openinfer.model.store import Array, Quantisation


_PIECE = 1 << 20
"""Elements that are dequantised at a time."""


def part_info(whole: VarInfo, found: Quantisation, part: str) -> VarInfo | None:
    """Return a description of a part of a quantised tensor, or None if it has no such part.

    Args:
        part: ``scale``, ``zero_point`` or the name of a float type, for the reals.
    """
    if part in BY_NAME and BY_NAME[part].is_float:
        dtype, shape, has_data = BY_NAME[part], whole.shape, whole.has_data
    elif part == "scale" or (part == "zero_point" and found.zero_point is not None):
        dtype, shape, has_data = F32 if part == "scale" else whole.dtype, found.scale.shape, True
    else:
        return None
    nbytes = dtype.storage_nbytes(math.prod(shape))
    name = f"{whole.name}@{part}"
    return VarInfo(name=name, dtype=dtype, shape=shape, has_data=has_data, offset=None, nbytes=nbytes)


def part_values(
    whole: VarInfo, found: Quantisation, part: str, codes: Callable[[str], Array], *, packed: bool, model: str
) -> Array:
    """Return a part of a quantised tensor, read-only.

    Args:
        codes: reads the integers of a tensor.
        packed: whether elements of a packed type are to be packed.
        model: what messages call the model.

    Raises:
        ModelError: zero points do not fit the type of the tensor.
    """
    if part == "scale":
        return read_only(found.scale)
    if part == "zero_point":
        values = _zero_point(whole, np.asarray(found.zero_point), model)
        return read_only(pack(values, whole.dtype) if packed else values)
    return _reals(codes(whole.name), found, BY_NAME[part])


def _zero_point(whole: VarInfo, values: Array, model: str) -> Array:
    dtype = whole.dtype
    if values.size and not (dtype.minimum or 0) <= values.min() <= values.max() <= (dtype.maximum or 0):
        message = f"zero points of {whole.name!r} of {model} do not fit {dtype}: use its reals, as a float"
        raise ModelError(message, file=model, table="tensors", name=whole.name)
    return values.astype(storage_dtype(dtype))


def _reals(values: Array, found: Quantisation, dtype: DType) -> Array:
    """Return the reals of a quantised tensor as the operator ``dequantize_linear`` computes them."""
    wide = np.float64 if values.itemsize == 4 or dtype.name == "f64" else np.float32
    out = np.empty(values.shape, storage_dtype(dtype))
    source, target = (values[None], out[None]) if values.ndim == 0 else (values, out)
    spread = [-1 if axis == found.axis else 1 for axis in range(source.ndim)]
    scale = found.scale.astype(wide).reshape(spread)
    zero_point = None if found.zero_point is None else found.zero_point.astype(wide).reshape(spread)
    rows = max(1, _PIECE // max(1, math.prod(source.shape[1:])))
    with np.errstate(all="ignore"):
        for first in range(0, len(source), rows):
            piece = slice(first, first + rows)
            own = piece if found.axis == 0 else slice(None)
            real = source[piece].astype(wide)
            if zero_point is not None:
                real -= zero_point[own]
            target[piece] = (real * scale[own]).astype(out.dtype)
    out.flags.writeable = False
    return out
