"""Which values an integer setting takes as it is, which are clipped, count from an end, or are refused.

An operator is planned at some values; what is equal there is the same operation. Where it does the same from some value
on, larger ones are clipped to that, and where it does at -1 what it does at ``n - 1``, values below 0 count from ``n``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.plan.sizes import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from openinfer.plan.operands import IndexExpr

    Form = Callable[[int], object]
    """What an operator does at a value of its setting, comparable; None where it refuses that."""

LARGEST = 2**31 - 1
"""Largest value of a setting that is tried."""

MOST_LOW = 4
"""Values from 0 on at which the least legal one is searched."""


@dataclass(frozen=True, slots=True)
class SettingRange:
    """Values of a setting.

    Attributes:
        low, high: between them the operator does something else at each value.
        least, most: of the values that it accepts, those below 0 counted already; None: any.
        size: what values below 0 count from; 0: they do not.
    """

    low: int
    high: int
    least: int | None
    most: int | None
    size: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether each value is taken as it is or refused."""
        return not self.size and (self.least, self.most) == (self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRange:
    """A `SettingRange` whose numbers may be known at run time only; ``size`` None: values below 0 do not count.

    Attributes:
        is_empty: whether ``high`` may be below ``low``, as the last row of no rows: each value is ``low`` then.
    """

    low: IndexExpr
    high: IndexExpr
    least: IndexExpr | None
    most: IndexExpr | None
    size: IndexExpr | None = None
    is_empty: bool = False

    @property
    def expressions(self) -> tuple[IndexExpr, ...]:
        """What it depends on."""
        found = (self.low, self.high, self.least, self.most, self.size)
        return tuple(expr for expr in found if expr is not None)


def length_range(most: int) -> PlaceRange:
    """Return the range of a length between two places: 0 where the second lies in front of the first."""
    return PlaceRange(low=number(0), high=number(most), least=None, most=None)


def largest_taken(form: Form, least: int) -> int | None:
    """Return the last value from ``least`` on that the operator accepts; None: it refuses that one, or none."""
    most = None if form(least) is None else _last(least, LARGEST, lambda value: form(value) is not None)
    return None if most == LARGEST else most


def setting_range(form: Form, extents: Iterable[int]) -> SettingRange | None:
    """Return the values of a setting; None where the operator accepts none of the first from 0 on.

    Args:
        extents: those of its inputs, which values below 0 may count from.
    """
    known: dict[int, object] = {}

    def at(value: int) -> object:
        if value not in known:
            known[value] = form(value)
        return known[value]

    least = next((value for value in range(MOST_LOW) if at(value) is not None), None)
    if least is None:
        return None
    most = _last(least, LARGEST, lambda value: at(value) is not None)
    high = most
    if most == LARGEST:
        high = _last(least, LARGEST, lambda value: at(value) != at(LARGEST)) + (at(least) != at(LARGEST))
        high = min(high, LARGEST)
    low = _last(least, high, lambda value: at(value) == at(least))
    above = None if most == LARGEST and high < LARGEST else most
    for size in sorted(set(extents)):
        if _counts(at, size, least):
            is_clipped = at(-size - 1) is not None and at(-size - 1) == at(least)
            return SettingRange(low, high, None if is_clipped else least, above, size)
    return SettingRange(low, high, least, above)


def _counts(at: Form, size: int, least: int) -> bool:
    """Whether values below 0 count from a size; the operator has to accept one of them at least."""
    pairs = [(value, value + size) for value in (-size, -size + 1, -size // 2, -1) if -size <= value < 0]
    found = [(at(value), at(place)) for value, place in pairs if place >= least]
    return any(one is not None for one, _ in found) and all(one == other for one, other in found)


def _last(first: int, end: int, holds: Callable[[int], bool]) -> int:
    """Return the last value up to ``end`` before something does not hold any more; ``first`` where it never does."""
    step, last = 1, first
    while last < end and holds(min(last + step, end)):
        last = min(last + step, end)
        step *= 2
    while step > 1:
        step //= 2
        if last + step <= end and holds(last + step):
            last += step
    return last
