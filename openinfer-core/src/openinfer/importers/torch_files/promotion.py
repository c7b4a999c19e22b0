"""Type promotion of PyTorch: the common element type of tensors, scalars in tensors, and numbers.

The kind (bool, integer, float) is the highest of all; its width is that of tensors with dims, unless only scalars or
only numbers have that kind (https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import BOOL, BY_NAME, F32, I64, DType
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size

Operand: TypeAlias = "Value | Size | float"
"""A tensor, or a number."""


def promoted(operands: Sequence[Operand]) -> DType:
    """Return the element type in which operands are combined."""
    tensors = [value.dtype for value in operands if isinstance(value, Value) and value.rank]
    scalars = [value.dtype for value in operands if isinstance(value, Value) and not value.rank]
    numbers = [_number_type(value) for value in operands if not isinstance(value, Value)]
    result: DType | None = None
    for group in (tensors, scalars, numbers):
        for dtype in group:
            if result is None:
                result = dtype
            elif group is tensors or (group is scalars and not tensors) or not (tensors or scalars):
                result = common_type(result, dtype)
            elif kind(dtype) > max(map(kind, _before(group, tensors, scalars)), default=-1):
                result = dtype if kind(dtype) > kind(result) else common_type(result, dtype)
    return result or F32


def _before(group: Sequence[DType], tensors: Sequence[DType], scalars: Sequence[DType]) -> Sequence[DType]:
    """Return the types that have a say before those of a group."""
    return tensors if group is scalars else [*tensors, *scalars]


def _number_type(value: Operand) -> DType:
    if isinstance(value, bool):
        return BOOL
    return F32 if isinstance(value, float) else I64


def kind(dtype: DType) -> int:
    """Return the kind of a type, in the order of promotion: bool, integer, float."""
    return 0 if dtype is BOOL else 1 if dtype.is_integer else 2


def common_type(a: DType, b: DType) -> DType:
    """Return the least type that has the values of two, as PyTorch chooses it."""
    if a is b:
        return a
    if kind(a) != kind(b):
        return a if kind(a) > kind(b) else b
    if kind(a) == 2:
        return max(a, b, key=lambda dtype: dtype.bits) if a.bits != b.bits else F32
    signs = {bool(dtype.minimum) for dtype in (a, b)}
    if len(signs) == 1:
        return max(a, b, key=lambda dtype: dtype.bits)
    signed, unsigned = (a, b) if a.minimum else (b, a)
    return signed if signed.bits > unsigned.bits else BY_NAME[f"i{min(2 * unsigned.bits, 64)}"]
