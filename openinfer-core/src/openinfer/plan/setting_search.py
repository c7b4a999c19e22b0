"""The values that integer settings of an operator may have, where several of them, or extents too, vary at run time.

An operator is planned at some extents; which values a setting takes there is generalised as its computations are
(`openinfer.compute.parametric`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Var
from openinfer.compute.parametric import Family, ParametricError, trials
from openinfer.plan.parameters import Parameter, bounded
from openinfer.plan.setting_ranges import LARGEST, PlaceRange, largest_taken, setting_range
from openinfer.plan.sizes import number, polynomial
from openinfer.plan.varying_calls import Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.indices import Interval
    from openinfer.plan.setting_ranges import SettingRange
    from openinfer.plan.steps import IndexExpr

Form: TypeAlias = Callable[[Mapping[str, int]], "Sample | None"]
Shape: TypeAlias = "tuple[int | Index, ...]"

TRIED = ((0, 1, 2), (3, 4, 5), (11, 13, 17), (101, 103, 107))
"""Values of settings that are tried where extents vary, which are large then."""


@dataclass(frozen=True, slots=True)
class PolynomialRange:
    """A `SettingRange` whose numbers are polynomials over extents, and over settings in front of it.

    Attributes:
        is_taken: whether each value is taken as it is, and is known to be one of these or is refused by the call.
    """

    low: int
    high: Index
    least: int | None
    most: Index | None
    size: Index
    is_taken: bool

    @property
    def is_unlimited(self) -> bool:
        """Whether there is no end of larger values, as with the extent of a result."""
        return self.high.constant == LARGEST

    def within(self, given: Interval) -> PolynomialRange:
        """Return the range where values are known to be in an interval, if that is inside."""
        high = self.high.constant
        if high is None or not (self.low <= given[0] and given[1] <= high):
            return self
        return replace(self, low=given[0], high=Index.of(given[1]), is_taken=True)

    def taken(self, value: int, sizes: Mapping[str, int]) -> int | None:
        """Return what a program takes a value as at some extents; None where it refuses the value."""
        counted = value + self.size.evaluate(sizes) if value < 0 else value
        high = self.high.evaluate(sizes)
        if self.is_taken:
            return value if self.low <= value <= high else None
        is_below = self.least is not None and counted < self.least
        if is_below or (self.most is not None and counted > self.most.evaluate(sizes)):
            return None
        return max(min(counted, high), self.low)

    def placed(self, sizes: Mapping[str, IndexExpr]) -> PlaceRange:
        """Return the range over the values of extents when the program runs."""
        return PlaceRange(
            low=number(self.low),
            high=polynomial(self.high, sizes),
            least=None if self.least is None else number(self.least),
            most=None if self.most is None else polynomial(self.most, sizes),
            size=polynomial(self.size, sizes) if self.size.terms else None,
            is_empty=_may_be_below(self.high, self.low),
        )


def _may_be_below(high: Index, low: int) -> bool:
    least = high.interval.low
    return least is None or least < low


class RangeSearch:
    """Finds the values of the settings of one call.

    Args:
        form: what the operator does at values of all parameters; None where it refuses them.
        extents: parameters that extents of its inputs depend on.
        shapes: of its inputs, over these.
        names: parameters of settings.
    """

    def __init__(
        self, form: Form, extents: Sequence[Parameter], shapes: Sequence[Shape | None], names: tuple[str, ...]
    ) -> None:
        self._form = form
        self._extents = extents
        self._shapes = [extent for shape in shapes for extent in shape or ()]
        self._names = names
        self._known: dict[tuple[int, ...], Sample | None] = {}
        self._trials = trials({p.name: p.tried for p in extents})
        if not extents:
            del self._trials[1:]

    def _at(self, sizes: Mapping[str, int]) -> Sample | None:
        key = (*(sizes[p.name] for p in self._extents), *(sizes[name] for name in self._names))
        if key not in self._known:
            self._known[key] = self._form(sizes)
        return self._known[key]

    def range_of(self, name: str) -> PolynomialRange | None:
        """Return the values of a setting; None where the operator accepts none of the first from 0 on.

        Raises:
            ParametricError: they have no common form at different extents.
        """
        found = [self._widest(name, trial) for trial in self._trials]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        first = known[0]
        alike = {(each.low, each.least, each.most is None) for each in known}
        if len(alike) > 1:
            raise ParametricError("which values it takes differs from size to size")
        family = Family({p.name: Var(p.name) for p in self._extents}, self._trials)
        high = self._common(family, [each.high for each in known])
        most = None if first.most is None else self._common(family, [each.most or 0 for each in known])
        size = self._common(family, [each.size for each in known])
        is_taken = all(each.is_plain for each in known) and high.constant is not None
        return PolynomialRange(first.low, high, first.least, most, size, is_taken)

    def _common(self, family: Family, values: Sequence[int]) -> Index:
        return family.number(values) if self._extents else Index.of(values[0])

    def _widest(self, name: str, trial: Mapping[str, int]) -> SettingRange | None:
        """Return the values of a setting at some extents, where the other settings leave it most of them."""
        extents = [e.evaluate(trial) if isinstance(e, Index) else e for e in self._shapes]
        others = [each for each in self._names if each != name]
        bases = dict.fromkeys((max(extents, default=0), 0, 1, *extents)) if others else (0,)
        widest: SettingRange | None = None
        for base in bases:
            fixed = {**trial, **dict.fromkeys(others, base)}
            found = setting_range(lambda value, fixed=fixed: self._at({**fixed, name: value}), extents)
            if found is not None and (widest is None or found.high - found.low > widest.high - widest.low):
                widest = found
        return widest

    def joint(self, ranges: Mapping[str, PolynomialRange]) -> Mapping[str, PolynomialRange]:
        """Return ranges of which later ones depend on earlier settings, where the operator refuses all largest values.

        So a length that is known at run time only is at most what follows its first place.
        """
        if len(ranges) < len(self._names) or len(ranges) < 2 or any(each.is_unlimited for each in ranges.values()):
            return ranges
        first = self._trials[0]
        if self._at({**first, **{name: each.high.evaluate(first) for name, each in ranges.items()}}) is not None:
            return ranges
        orders = (self._dependent({name: ranges[name] for name in names}) for names in permutations(ranges))
        return next((found for found in orders if found is not None), ranges)

    def _dependent(self, ranges: Mapping[str, PolynomialRange]) -> Mapping[str, PolynomialRange] | None:
        """Return ranges, each at any values of those in front of it and 0 of the others; None: there are none."""
        found: dict[str, PolynomialRange] = {}
        tried = {p.name: p.tried for p in self._extents}
        variables = {p.name: Var(p.name) for p in self._extents}
        for name, known in ranges.items():
            least = known.least
            if least is None:
                return None
            rows = trials(tried)
            zeros = {later: ranges[later].low for later in ranges if later not in found}
            found_most = [self._last_taken(name, least, {**zeros, **row}) for row in rows]
            most = [each for each in found_most if each is not None]
            if len(most) < len(found_most):
                return None
            try:
                high = Family(variables, rows).number(most)
            except ParametricError:
                return None
            found[name] = PolynomialRange(least, high, least, high, known.size, is_taken=False)
            tried[name] = (least, least + 1, least + 2)
            variables[name] = bounded(name, high + 1)
        return found

    def _last_taken(self, name: str, least: int, sizes: Mapping[str, int]) -> int | None:
        return largest_taken(lambda value: self._at({**sizes, name: value}), least)

    def largest(self, extent: Index, ranges: Mapping[str, PolynomialRange]) -> int:
        """Return a polynomial over extents and settings with some ranges where it is largest; at least 0."""
        ends = {p.name: {p.low, p.high} for p in self._extents}
        inside = {var.name for var in extent.variables()} & ranges.keys()
        ends |= {name: {ranges[name].low, self.largest(ranges[name].high, ranges)} for name in inside}
        corners = product(*ends.values())
        return max(0, *(extent.evaluate(dict(zip(ends, corner, strict=True))) for corner in corners))

    def tried(self, ranges: Mapping[str, PolynomialRange]) -> dict[str, tuple[int, int, int]] | None:
        """Return three values of each setting at which the operator does the same things; None: there are none."""
        best: tuple[int, dict[str, tuple[int, int, int]]] | None = None
        for chosen in product(*(self._candidates(ranges[name]) for name in self._names)):
            tried = dict(zip(self._names, chosen, strict=True))
            samples = [self._at(each) for each in trials({**{p.name: p.tried for p in self._extents}, **tried})]
            kinds = {None if sample is None else sample.kind for sample in samples}
            if len(kinds) > 1 or None in kinds:
                continue
            first = samples[0]
            worth = 0 if first is None else sum(kind.count > 0 for kind in first.outputs)
            different = sum(len(set(values)) for values in chosen)
            if best is None or (worth, different) > (best[0] // 100, best[0] % 100):
                best = (100 * worth + different, tried)
        return None if best is None else best[1]

    def _candidates(self, known: PolynomialRange) -> list[tuple[int, int, int]]:
        high = known.high.constant
        if high is None:
            return list(TRIED)
        low = known.low
        if low == high:
            return [(low, low, low)]
        middle = (low + high) // 2
        rows = [
            (high, high - 1, high - 2),
            (low, low + 1, low + 2),
            (low + 1, low + 2, low + 3),
            (high - 1, high - 2, middle),
            (middle, middle + 1, middle + 1),
            (high, high - 1, high - 1),
            (low, low + 1, low + 1),
            (low + 1, low + 2, low + 2),
        ]
        return [row for row in dict.fromkeys(rows) if all(low <= value <= high for value in row)]

    def parameter(
        self,
        name: str,
        value: IndexExpr,
        ranges: Mapping[str, PolynomialRange],
        tried: Mapping[str, tuple[int, int, int]],
    ) -> Parameter:
        """Return the parameter of a setting, of ranges and tried values of all."""
        known = ranges[name]
        low, high = known.low, self.largest(known.high, ranges)
        at_first = known.high.evaluate({**self._trials[0], **{each: values[0] for each, values in tried.items()}})
        checked = sorted({low, min(low + 1, at_first), (low + at_first) // 2, max(at_first - 1, low), at_first})
        return Parameter(
            name=name,
            value=value,
            low=low,
            high=high,
            tried=tried[name],
            is_extent=False,
            checked=tuple(checked),
            extent=known.high + 1,
        )
