"""The type of a tensor: element type and shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and shape, in elements; an empty shape is a scalar."""

    dtype: DType
    shape: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in storage, packed types packed."""
        return self.dtype.storage_nbytes(self.count)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
