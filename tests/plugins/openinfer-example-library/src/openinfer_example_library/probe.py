"""Whether the device can be used here."""

from importlib.metadata import PackageNotFoundError, version

from openinfer.plugin import Availability


def probe() -> Availability:
    """Say which library is there, or what to install; the library itself is imported when the device is opened."""
    try:
        return Availability(available=True, detail=f"array-api-strict {version('array-api-strict')}")
    except PackageNotFoundError:
        return Availability(available=False, detail="array_api_strict is missing: pip install array-api-strict")
