"""Intervals of integers, either end of which may be open."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class _Unbounded(Enum):
    BELOW = "below"
    ABOVE = "above"


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from ``low`` to ``high``, inclusive; None: no bound is known on that side."""

    low: int | None
    high: int | None

    def __add__(self, other: Interval) -> Interval:
        return Interval(_sum(self.low, other.low), _sum(self.high, other.high))

    def __mul__(self, other: Interval) -> Interval:
        """Return the smallest interval that holds every product."""
        if self.low is not None and self.high is not None and other.low is not None and other.high is not None:
            ends = (self.low * other.low, self.low * other.high, self.high * other.low, self.high * other.high)
            return Interval(min(ends), max(ends))
        corners = [_corner(x, y) for x in ((self.low, -1), (self.high, 1)) for y in ((other.low, -1), (other.high, 1))]
        finite = [corner for corner in corners if isinstance(corner, int)]
        return Interval(
            None if _Unbounded.BELOW in corners else min(finite), None if _Unbounded.ABOVE in corners else max(finite)
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _corner(x: tuple[int | None, int], y: tuple[int | None, int]) -> int | _Unbounded:
    """Return the product of two ends, each given with the side on which it is open if it is None."""
    if x[0] is not None and y[0] is not None:
        return x[0] * y[0]
    # An open end has only a sign; times 0 it is 0, because every integer of the interval is finite.
    sign = _sign(*x) * _sign(*y)
    if sign == 0:
        return 0
    return _Unbounded.ABOVE if sign > 0 else _Unbounded.BELOW


def _sign(end: int | None, side: int) -> int:
    return side if end is None else (end > 0) - (end < 0)
