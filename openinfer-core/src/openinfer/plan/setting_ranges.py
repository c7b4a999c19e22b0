"""Which values a place or a length takes as it is, which are clipped, count from an end, or are refused."""

from __future__ import annotations

from dataclasses import dataclass

from openinfer.affine import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRange:
    """What becomes of a value: numbers may be known at run time only.

    Attributes:
        low, high: values outside of these are clipped to them.
        least, most: values outside of these, those below 0 counted already, are an error; None: any is accepted.
        size: what values below 0 count from; None: they do not.
        is_empty: whether ``high`` may be below ``low``, as the last row of no rows: each value is ``low`` then.
    """

    low: Index
    high: Index
    least: Index | None
    most: Index | None
    size: Index | None = None
    is_empty: bool = False

    @property
    def expressions(self) -> tuple[Index, ...]:
        """What it depends on."""
        parts = (self.low, self.high, self.least, self.most, self.size)
        return tuple(expr for expr in parts if expr is not None)


def length_range(most: int) -> PlaceRange:
    """Return the range of a length between two places: 0 where the second lies in front of the first."""
    return PlaceRange(low=Index.of(0), high=Index.of(most), least=None, most=None)
