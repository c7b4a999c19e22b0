"""Asks a device whether it can be used here, whatever its probe does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.plugins.types import Availability, load_object

if TYPE_CHECKING:
    from openinfer.plugins.types import DeviceSpec


def probe(spec: DeviceSpec) -> Availability:
    """Return whether a device is available, and what it is or what to do; a probe that raises is reported so."""
    try:
        found: Any = load_object(spec.probe)()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken probe must not hide the other devices
        detail = f"its probe {spec.probe} raised {type(error).__name__}: {error}; report this to its author"
        return Availability(available=False, detail=detail)
    if not isinstance(found, Availability):
        detail = f"its probe {spec.probe} returned {type(found).__name__}, expected Availability; report this"
        return Availability(available=False, detail=detail)
    return found
