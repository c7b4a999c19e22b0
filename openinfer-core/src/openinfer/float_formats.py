"""The limits of the floating element types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A floating format: bits of its fraction, and the exponent of its least normal number."""

    fraction: int
    exponent: int

    @property
    def epsilon(self) -> float:
        """Distance from 1 to the next number."""
        return 2.0**-self.fraction

    @property
    def normal(self) -> float:
        """The least normal number."""
        return 2.0**self.exponent

    @property
    def least(self) -> float:
        """The least number above zero."""
        return 2.0 ** (self.exponent - self.fraction)

    @property
    def greatest(self) -> float:
        """The greatest finite number."""
        return (2.0 - self.epsilon) * 2.0 ** (1 - self.exponent)


FORMATS = {
    "f8": FloatFormat(2, -14),
    "bf16": FloatFormat(7, -126),
    "f16": FloatFormat(10, -14),
    "f32": FloatFormat(23, -126),
    "f64": FloatFormat(52, -1022),
}
"""The floating types by name (``specification: dtypes.types``)."""
