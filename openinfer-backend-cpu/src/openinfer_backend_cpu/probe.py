"""Whether the device can be used here."""

from __future__ import annotations

import os
import platform

from openinfer.plugins.types import Availability


def probe() -> Availability:
    """Return that the device is there, with the processor's architecture and the number of its cores."""
    try:
        import numpy as np
    except ImportError as error:
        return Availability(available=False, detail=f"NumPy cannot be imported ({error}): reinstall numpy")
    cores = os.cpu_count() or 1
    return Availability(available=True, detail=f"{platform.machine()}, {cores} cores, NumPy {np.__version__}")
