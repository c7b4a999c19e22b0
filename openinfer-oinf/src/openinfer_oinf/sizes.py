"""Byte counts for people."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(nbytes: int) -> str:
    """A byte count in the unit that suits it."""
    amount, unit = float(nbytes), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{nbytes} B" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"
