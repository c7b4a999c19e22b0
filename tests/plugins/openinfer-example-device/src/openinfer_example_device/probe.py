"""Whether the device can be used here: always, it only needs NumPy."""

from openinfer.plugin import Availability


def probe() -> Availability:
    """Say what is there; a device that misses something would say what, and what to do."""
    return Availability(available=True, detail="nine rows of beads")
