"""Numbers that round f32 to the low floats of five exponent bits, which the renderers of C and GLSL share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NarrowFormat:
    """A float of five exponent bits, ``width`` bits in all and ``fraction`` bits of fraction."""

    name: str
    width: int
    fraction: int

    @property
    def unused(self) -> int:
        """Bits of an f32's fraction that are rounded away."""
        return 23 - self.fraction

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.width - 1)

    @property
    def infinity(self) -> int:
        return 31 << self.fraction

    @property
    def quiet(self) -> int:
        """The quiet NaN that has no further bits."""
        return 63 << (self.fraction - 1)

    @property
    def overflow(self) -> int:
        """Bits of the f32 half a step above the largest number; a tie goes to infinity, whose last bit is even."""
        return (127 + 15 << 23) + ((1 << (self.fraction + 1)) - 1 << (22 - self.fraction))

    @property
    def half(self) -> int:
        """One less than half a step, in units of the last place of an f32."""
        return (1 << (self.unused - 1)) - 1

    @property
    def step_exponent(self) -> int:
        """The power of two whose last place in f32 is the smallest subnormal: its addition rounds small numbers."""
        return 9 - self.fraction


F16_FORMAT = NarrowFormat("f16", 16, 10)
F8_FORMAT = NarrowFormat("f8", 8, 2)
