"""Misspells a hook."""

from collections.abc import Iterable

from openinfer.plugin import DeviceSpec, hookimpl

OPENINFER_API = 1


@hookimpl
def openinfer_device() -> Iterable[DeviceSpec]:
    """Offer nothing."""
    return ()
