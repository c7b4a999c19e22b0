"""Whether the hardware of a device takes subnormals for zero."""

from __future__ import annotations


def flushes_subnormals(device: str) -> bool:
    """Whether the hardware of a device of the simulator may take subnormals for zero, as far as it says."""
    if not device.startswith("vulkan"):
        return False
    from openinfer_backend_vulkan.api.physical import physical_devices, shared_instance

    ordinal = int(device.partition(":")[2] or 0)
    return not physical_devices(shared_instance())[ordinal].keeps_subnormals
