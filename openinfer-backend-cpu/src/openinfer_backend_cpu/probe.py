"""Whether the device can be used here."""

from __future__ import annotations

import os
import platform

from openinfer.plugins.types import Availability


def probe() -> Availability:
    """Return that the device is there, with the architecture, the number of cores, and the libraries."""
    try:
        import numpy as np
    except ImportError as error:
        return Availability(available=False, detail=f"NumPy cannot be imported ({error}): reinstall numpy")
    cores = os.cpu_count() or 1
    return Availability(
        available=True, detail=f"{platform.machine()}, {cores} cores, NumPy {np.__version__}, {_linear_algebra()}"
    )


def _linear_algebra() -> str:
    """Return the library that multiplies matrices, and whether results may depend on its threads."""
    from openinfer_backend_cpu.linear_algebra import linear_algebra

    found = linear_algebra()
    if found.threads.held:
        return found.name
    return f"{found.name}, whose threads cannot be limited: results of matrix products may depend on their number"
