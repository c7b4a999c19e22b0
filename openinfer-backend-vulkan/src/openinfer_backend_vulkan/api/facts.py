"""What `openinfer devices --verbose` shows of a device: features, limits, and memory with what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer_backend_vulkan.api.heaps import heaps, is_direct
from openinfer_backend_vulkan.api.physical import FEATURES
from openinfer_backend_vulkan.spirv.float_modes import MODES

if TYPE_CHECKING:
    from openinfer_backend_vulkan.api.physical import PhysicalDevice


def facts(physical: PhysicalDevice) -> dict[str, bool | int | str]:
    """Return facts about a device that can compute, by name; the memory is that of this moment."""
    return {
        "name": physical.name,
        "kind": physical.kind,
        "Vulkan": ".".join(map(str, physical.api_version)),
        **{feature: feature in physical.features for feature in FEATURES},
        "storage of 8 bits": 8 in physical.narrow,
        "storage of 16 bits": 16 in physical.narrow,
        **{mode.property: mode in physical.float_modes for mode in MODES},
        "cooperative matrices, rows x columns x depth": _matrices(physical),
        "invocations of a workgroup": physical.max_invocations,
        "invocations of a subgroup": physical.subgroup_size,
        "shared memory of a workgroup, bytes": physical.shared_nbytes,
        "push constants, bytes": physical.push_nbytes,
        "storage buffers of a shader": physical.max_storage_buffers,
        "largest storage buffer, bytes": physical.max_storage_bytes,
        "device timestamps, ns": f"{physical.tick_ns:g}" if physical.clock_bits else "none",
        "tensors": "in place" if is_direct(physical) else "through the staging ring",
        **_memory(physical),
    }


def _matrices(physical: PhysicalDevice) -> str:
    shapes = (f"{m.rows}x{m.columns}x{m.depth} {m.factor}+{m.total}" for m in physical.matrices)
    return ", ".join(shapes) or "none that shaders here use"


def _memory(physical: PhysicalDevice) -> dict[str, bool | int | str]:
    lines: dict[str, bool | int | str] = {}
    for number, heap in enumerate(heaps(physical)):
        where = "of the device" if heap.is_device_local else "of the host"
        lines[f"heap {number} ({where}), bytes"] = heap.nbytes
        lines[f"heap {number}, bytes left"] = "the driver does not say" if heap.left is None else heap.left
    return lines
