"""Copies of elements between places that strides describe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.ops.strides import merged
from openinfer_backend_vulkan.buffers import glsl_bits
from openinfer_backend_vulkan.shaders import Shader, rendered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType

    Places = tuple[int, Sequence[int]]
    """Offset of the first element, and the stride of each dim; both in elements, strides may be negative."""


def strided_copy(dtype: DType, extents: Sequence[int], source: Places, target: Places) -> Shader:
    """Return the kernel that copies elements of a type from the places of one tensor to those of another."""
    return _copy(glsl_bits(dtype), extents, source, target)


def copy_shader(nbytes: int) -> Shader:
    """Return the kernel that copies whole words of 32 bits from one buffer to another."""
    return _copy("uint", (nbytes // 4,), (0, (1,)), (0, (1,)))


def _copy(word: str, extents: Sequence[int], source: Places, target: Places) -> Shader:
    count = math.prod(extents)
    walk = merged(tuple(extents), (tuple(source[1]), tuple(target[1])))
    parameters = (count, source[0], target[0], *walk.extents, *walk.strides[0], *walk.strides[1])
    return Shader(rendered("copy.comp.j2", word=word, rank=walk.rank), parameters, count)
