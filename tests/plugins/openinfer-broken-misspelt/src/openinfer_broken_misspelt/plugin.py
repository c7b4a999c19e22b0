"""Misspells a hook."""

from collections.abc import Iterable

from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.types import DeviceSpec

OPENINFER_API = 1


@hookimpl
def openinfer_device() -> Iterable[DeviceSpec]:
    """Offer nothing."""
    return ()
