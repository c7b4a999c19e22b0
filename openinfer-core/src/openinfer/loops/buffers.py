"""The buffers of loop programs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.affine import Index
    from openinfer.dtypes import DType


class Memory(Enum):
    """Where the elements of a buffer lie.

    ``GLOBAL`` values live between kernels, ``CONSTANT`` ones are never written, ``STATE`` ones live between steps;
    ``SHARED`` belongs to a group of threads, ``PRIVATE`` to one thread.
    """

    GLOBAL = "GLOBAL"
    CONSTANT = "CONSTANT"
    STATE = "STATE"
    SHARED = "SHARED"
    PRIVATE = "PRIVATE"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Elements in a row.

    Attributes:
        size: number of elements, an index over parameters.
    """

    name: str
    dtype: DType
    size: Index
    memory: Memory = Memory.GLOBAL
