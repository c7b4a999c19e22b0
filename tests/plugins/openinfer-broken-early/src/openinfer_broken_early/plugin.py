"""Takes the name of a device that this repository offers, and prints when it is imported."""

import os
from collections.abc import Iterator

from openinfer.plugin import DeviceSpec, hookimpl

OPENINFER_API = 1

print("broken_early is here")
os.write(1, b"and its library\n")


@hookimpl
def openinfer_devices() -> Iterator[DeviceSpec]:
    """Offer a device `cpu`, without saying that it replaces the other one."""
    yield DeviceSpec(
        name="cpu",
        summary="another processor",
        probe="openinfer_broken_early.plugin:absent",
        backend="openinfer_broken_early.plugin:absent",
        expression_dtypes=frozenset({"f32"}),
    )
