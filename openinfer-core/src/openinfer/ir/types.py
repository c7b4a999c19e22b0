"""The type of a tensor: element type and shape."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer import dims

if TYPE_CHECKING:
    from openinfer.dtypes import DType

LARGEST_SIZE = (1 << 63) - 1
"""Elements, or bytes, that a tensor may have."""


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

    @property
    def fits(self) -> bool:
        """Whether sizes of it have 64 bits, as in a container: its bytes, and the product of its dims other than 0."""
        product = math.prod(dims.max(extent, 1) for extent in self.shape)
        return product <= LARGEST_SIZE and self.dtype.storage_nbytes(product) <= LARGEST_SIZE

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"
