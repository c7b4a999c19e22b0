"""How far values of an element type may be apart and still count as equal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from openinfer.dtypes import BY_NAME


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Values are close when they differ by at most ``absolute``, or by ``relative`` of a magnitude.

    Which magnitude, the comparison says: that of the element between devices, the largest of the tensor for outputs.
    """

    absolute: float
    relative: float

    def times(self, factor: float) -> Tolerance:
        """Return a tolerance that many times as wide."""
        return Tolerance(self.absolute * factor, self.relative * factor)

    def __str__(self) -> str:
        return f"{self.absolute:.3g},{self.relative:.3g}"


EXACT = Tolerance(0.0, 0.0)

BETWEEN_DEVICES: Mapping[str, Tolerance] = MappingProxyType(
    {
        "f8": Tolerance(0.6, 0.25),
        "bf16": Tolerance(0.1, 0.02),
        "f16": Tolerance(0.6, 0.08),
        "f32": Tolerance(1e-4, 1e-4),
        "f64": Tolerance(1e-7, 1e-7),
    }
)
"""By element type, for each value that a node writes (``specification: dtypes.drift``); other types are to be equal."""

OF_OUTPUTS: Mapping[str, Tolerance] = MappingProxyType(
    {
        "bf16": Tolerance(1e-2, 2e-2),
        "f16": Tolerance(1e-3, 2e-3),
        "f32": Tolerance(1e-6, 1e-5),
        "f64": Tolerance(2e-15, 1e-12),
    }
)
"""By element type, for outputs of programs; other types are to be equal.

The relative part is a share of the largest magnitude of the output. The absolute part is about eight units in the last
place of 1 (one of f16 and bf16): what is left of terms near 1 that cancel is rounding, however small the output is.
"""


def widened(table: Mapping[str, Tolerance], overrides: Mapping[str, Tolerance]) -> dict[str, Tolerance]:
    """Return a table with others in place of its tolerances: by element type, or under ``""`` for all floats."""
    return (dict.fromkeys(table, overrides[""]) if "" in overrides else dict(table)) | {
        name: tolerance for name, tolerance in overrides.items() if name
    }


def parse_tolerance(text: str) -> tuple[str, Tolerance]:
    """Return the element type, ``""`` for all floats, and the tolerance of ``[DTYPE=]ABS[,REL]``.

    Without REL, floats have ABS as their relative tolerance too; integers have none.

    Raises:
        ValueError: it has another form, the type is unknown, or a number is negative or not finite.
    """
    name, equals, numbers = (part.strip() for part in text.rpartition("="))
    if name and name not in BY_NAME:
        names = ", ".join(dict.fromkeys(dtype.name for dtype in BY_NAME.values()))
        raise ValueError(f"expected [DTYPE=]ABS[,REL], found {text!r} with the unknown type {name!r}; known: {names}")
    parts = [_number(part) for part in numbers.split(",")]
    bounds = [part for part in parts if part is not None]
    if (equals and not name) or len(bounds) < len(parts) or len(bounds) > 2:
        form = "[DTYPE=]ABS[,REL] with finite numbers from 0 on, such as 1e-3, f32=1e-3,1e-5 or i8=1"
        raise ValueError(f"expected {form}, found {text!r}")
    dtype = BY_NAME[name] if name else None
    of_magnitude = bounds[0] if dtype is None or dtype.is_float else 0.0
    return dtype.name if dtype else "", Tolerance(bounds[0], bounds[1] if len(bounds) > 1 else of_magnitude)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None
