"""Whether the device can be used here."""

from __future__ import annotations

import sys

from openinfer.errors import OpenInferError
from openinfer.plugins.types import Availability


def probe() -> Availability:
    """Return which compiler there is, or what to install."""
    from openinfer.synth.c_host.toolchain import find_compiler

    if sys.byteorder != "little":
        return Availability(available=False, detail="generated C reads little-endian data, this machine is big-endian")
    try:
        compiler = find_compiler()
    except OpenInferError as error:
        return Availability(available=False, detail=str(error))
    return Availability(available=True, detail=f"C99 through {' '.join(compiler)}, one thread")
