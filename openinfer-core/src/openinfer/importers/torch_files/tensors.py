"""Element types of PyTorch in OpenInfer, and the numbers of its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BOOL, BY_NAME, DType
from openinfer.errors import ModelImportError
from openinfer.importers.torch_files.package import torch_module

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array

NAMES = {
    "bfloat16": "bf16",
    "bool": "bool",
    "float8_e5m2": "f8",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
"""Element types by the names of PyTorch; OpenInfer has no counterpart for the others."""

_BITS = {"bf16": "int16", "f8": "uint8"}
"""Types without a counterpart in NumPy, and the integers that their bits are moved in."""


def known_type(dtype: Any) -> DType | None:
    """Return the element type of a `torch.dtype`; None where OpenInfer has none for it."""
    return BY_NAME.get(NAMES.get(str(dtype).removeprefix("torch."), ""))


def element_type(dtype: Any, owner: str) -> DType:
    """Return the element type of a `torch.dtype`, which ``owner`` has.

    Raises:
        ModelImportError: OpenInfer has none for it.
    """
    element = known_type(dtype)
    if element is None:
        message = f"{owner} is {dtype}, expected one of {', '.join(NAMES)}"
        raise ModelImportError(f"{message}: convert it before the export", code="import-unsupported")
    return element


def array_of(tensor: Any) -> Array:
    """Return the numbers of a tensor, with the bits that it has."""
    dense = tensor.detach().cpu().contiguous()
    dtype = element_type(dense.dtype, "a tensor")
    bits = _BITS.get(dtype.name)
    if bits is None:
        return np.asarray(dense.numpy())
    return np.asarray(dense.view(getattr(torch_module(), bits)).numpy()).view(storage_dtype(dtype))


def tensor_of(array: Array, dtype: DType) -> Any:
    """Return an array as a tensor."""
    torch = torch_module()
    held = np.ascontiguousarray(array).reshape(array.shape)
    bits = _BITS.get(dtype.name)
    if dtype is BOOL:
        return torch.from_numpy(held.astype(np.bool_))
    if bits is None:
        return torch.from_numpy(held.copy())
    whole = torch.from_numpy(held.view(bits).copy())
    return whole.view(getattr(torch, next(name for name, ours in NAMES.items() if ours == dtype.name)))
