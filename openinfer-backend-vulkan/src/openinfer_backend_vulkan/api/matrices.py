"""Cooperative matrices of a device: the shapes that its subgroups multiply, and what has to be switched on for them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from openinfer.dtypes import F16, F32, I8, I32, U8, U32
from openinfer.schedule import TileShape
from openinfer_backend_vulkan.api.native import Handle, Structs, check, foreign, library

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.dtypes import DType

MATRIX_EXTENSIONS = ("VK_KHR_cooperative_matrix", "VK_KHR_vulkan_memory_model", "VK_KHR_shader_float16_int8")
"""Device extensions without which shaders have no cooperative matrices."""

_QUERY = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
_SUBGROUP = 3
_TYPES: dict[int, DType] = {0: F16, 1: F32, 3: I8, 5: I32, 7: U8, 9: U32}
_FEATURES = {
    "VkPhysicalDeviceCooperativeMatrixFeaturesKHR": ("cooperativeMatrix",),
    "VkPhysicalDeviceVulkanMemoryModelFeaturesKHR": ("vulkanMemoryModel",),
    "VkPhysicalDeviceShaderFloat16Int8FeaturesKHR": ("shaderFloat16", "shaderInt8"),
}


def matrix_shapes(
    instance: Handle, handle: Handle, extensions: frozenset[str], narrow: frozenset[int]
) -> tuple[TileShape, ...]:
    """Return what subgroups of a device multiply at once, as its driver lists it; empty where shaders cannot say so."""
    if not frozenset(MATRIX_EXTENSIONS) <= extensions or not {8, 16} <= narrow:
        return ()
    structs = Structs()
    offered = [structs.new(name) for name in _FEATURES]
    for one, other in pairwise(offered):
        one.pNext = other
    library().vkGetPhysicalDeviceFeatures2(handle, structs.new("VkPhysicalDeviceFeatures2", pNext=offered[0]))
    if not all(
        getattr(struct, name) for struct, names in zip(offered, _FEATURES.values(), strict=True) for name in names
    ):
        return ()
    return tuple(_shapes(instance, handle, structs))


def matrix_features(structs: Structs) -> list[Handle]:
    """Return a chain of structs that switch cooperative matrices on."""
    features = [structs.new(name, **dict.fromkeys(fields, 1)) for name, fields in _FEATURES.items()]
    for one, other in pairwise(features):
        one.pNext = other
    return features


def _shapes(instance: Handle, handle: Handle, structs: Structs) -> Iterator[TileShape]:
    """Yield shapes with factors of one type, and totals of the type that is added to."""
    ffi = foreign()
    address = library().vkGetInstanceProcAddr(instance, structs.array("char", f"{_QUERY}\0".encode()))
    query = ffi.cast(f"PFN_{_QUERY}", address)
    count = ffi.new("uint32_t*")
    check(_QUERY, query(handle, count, ffi.NULL))
    items = ffi.new("VkCooperativeMatrixPropertiesKHR[]", count[0])
    for number in range(count[0]):
        items[number].sType = library().VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR
    check(_QUERY, query(handle, count, items))
    for number in range(count[0]):
        shape = items[number]
        factor, total = _TYPES.get(shape.AType), _TYPES.get(shape.CType)
        if factor is None or total is None or factor.kind is not total.kind:
            continue  # Instructions have one sign for factors and totals.
        is_even = shape.AType == shape.BType and shape.CType == shape.ResultType and shape.scope == _SUBGROUP
        if is_even and not shape.saturatingAccumulation:
            yield TileShape(rows=shape.MSize, columns=shape.NSize, depth=shape.KSize, factor=factor, total=total)
