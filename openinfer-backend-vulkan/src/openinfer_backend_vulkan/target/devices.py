"""What kernels are made for: the shader target of a device file, and the devices that the target knows by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from openinfer.errors import SynthesisError
from openinfer_backend_vulkan.glsl.shaders import GROUP_SIZE, LLVMPIPE_TURNS, SOFTWARE_BUSY, ShaderTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.arch import DeviceArch

SOFTWARE = "software"
"""``device.architecture`` of drivers that compute on the processor, such as Mesa's llvmpipe."""

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30


def shader_target(arch: DeviceArch | None) -> ShaderTarget:
    """Return what shaders are made for; without a device file, for any device, software ones too.

    Raises:
        SynthesisError: workgroups of the device are smaller than those of any Vulkan device.
    """
    if arch is None:
        return ShaderTarget(most_turns=LLVMPIPE_TURNS)
    limits = arch.limits
    across, most = limits.max_workgroup_size[0], limits.max_workgroup_invocations
    if min(across, most) < GROUP_SIZE:
        message = f"workgroups of the device have at most {min(across, most)} invocations, kernels have {GROUP_SIZE}"
        raise SynthesisError(f"{message} (limits.max_workgroup_size): Vulkan devices have 128 or more")
    is_software = arch.architecture == SOFTWARE
    storage = {8: arch.features.int8, 16: arch.features.fp16}
    return ShaderTarget(
        most_turns=LLVMPIPE_TURNS if is_software else None,
        narrow=frozenset(bits for bits, has in storage.items() if has),
        pushed_words=limits.max_push_constants_bytes // 4,
        busy=SOFTWARE_BUSY if is_software else ShaderTarget().busy,
        subgroup=limits.subgroup_size if arch.features.subgroup_ops else 1,
        group=min(across, most),
        shared_nbytes=limits.max_shared_memory_bytes,
        is_software=is_software,
    )


def _document(
    name: str,
    architecture: str,
    *,
    workgroup: tuple[int, int, int],
    invocations: int,
    subgroup: int,
    shared: int,
    pushed: int,
    largest: int,
    narrow: bool,
    **memory: int,
) -> dict[str, Any]:
    return {
        "version": 2,
        "device": {"type": "gpu", "api": "vulkan", "name": name, "architecture": architecture},
        "limits": {
            "max_workgroup_size": list(workgroup),
            "max_workgroup_invocations": invocations,
            "max_shared_memory_bytes": shared,
            "max_push_constants_bytes": pushed,
            "max_storage_buffer_range_bytes": largest,
            "subgroup_size": subgroup,
        },
        "features": {"fp16": narrow, "int8": narrow, "subgroup_ops": subgroup > 1},
        "memory": memory,
    }


PROFILES: dict[str, Callable[[], Mapping[str, Any]]] = {
    # What the driver of Mesa's software device reports.
    "llvmpipe": partial(
        _document,
        "llvmpipe",
        SOFTWARE,
        workgroup=(1024, 1024, 1024),
        invocations=1024,
        subgroup=8,
        shared=32 * _KIB,
        pushed=128,
        largest=128 * _MIB,
        narrow=True,
    ),
    # A mobile GPU: the smallest workgroups that Vulkan allows, subgroups of 16, and no storage of 8 or 16 bits.
    "mali": partial(
        _document,
        "mali",
        "valhall",
        workgroup=(128, 128, 64),
        invocations=128,
        subgroup=16,
        shared=32 * _KIB,
        pushed=128,
        largest=128 * _MIB,
        narrow=False,
    ),
    # Sizes of memories as NVIDIA documents them.
    "h200": partial(
        _document,
        "NVIDIA H200",
        "hopper",
        workgroup=(1024, 1024, 64),
        invocations=1024,
        subgroup=32,
        shared=48 * _KIB,
        pushed=256,
        largest=4 * _GIB - 1,
        narrow=True,
        global_bytes=139 * _GIB,
        shared_bytes_per_sm=228 * _KIB,
        l2_bytes=50 * _MIB,
    ),
}
"""Functions that return the document of each profile, by name."""
