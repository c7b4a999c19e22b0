"""Symbolic dimensions of results: expressions of sizes that agree with the shape rule of an operator at trial sizes.

A shape rule is a function of numbers. It is called at the sizes of the model and at others near and far from them; a
dimension is the first candidate that has its value at all of them. Candidates are the dimensions of the inputs and of
settings, sums and products of them, and these scaled, shifted or divided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.polynomials import simplified
from openinfer.symbolic import BinOp, Const

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.symbolic import IntExpr

Sizes: TypeAlias = Mapping[str, int]
Rule: TypeAlias = "Callable[[Sizes], Sequence[tuple[int, ...]] | None]"
"""The shapes of the results at some sizes; None where there are none."""

MOST_NAMES = 8
"""Most names whose values are tried; what depends on more is given as numbers."""

FACTORS = (2, 3, 5)
SHIFTS = (1, 2, 3, 5, 7)
FAR = 5040
"""A distance that every divisor up to 10 divides."""

MOST_DIVISOR = 64


@dataclass(frozen=True, slots=True)
class Trial:
    """Sizes, and the shapes that a rule has at them."""

    sizes: Sizes
    shapes: Sequence[tuple[int, ...]]


def symbolic_shapes(
    rule: Rule, base: Sizes, shapes: Sequence[tuple[int, ...]], groups: Sequence[Sequence[IntExpr]]
) -> list[tuple[IntExpr | None, ...]]:
    """Return the dimensions of each result of a rule; None for one that varies as no candidate does.

    Args:
        base: values of all names.
        shapes: what the rule has there.
        groups: dimensions of each input, and the expressions of each setting.
    """
    names = list(dict.fromkeys(name for group in groups for dim in group for name in symbolic.names(dim)))
    if not names:
        return [tuple(map(Const, shape)) for shape in shapes]
    first = Trial(base, shapes)
    trials = [first, *_trials(rule, first, names)] if len(names) <= MOST_NAMES else [first]
    candidates = _Candidates(trials, groups)
    return [
        tuple(candidates.dim([trial.shapes[result][axis] for trial in trials]) for axis in range(len(shape)))
        for result, shape in enumerate(shapes)
    ]


def _trials(rule: Rule, first: Trial, names: Sequence[str]) -> Iterator[Trial]:
    base = first.sizes
    free = [name for name in names if _tried(rule, first, _scaled(base, {name: 2})) is not None]
    for name in free:
        for value in (*(base[name] + shift for shift in (*SHIFTS, FAR)), *(base[name] * factor for factor in FACTORS)):
            yield from _some(_tried(rule, first, {**base, name: value}))
    bound = [name for name in names if name not in free]
    # Sizes that a program relates, such as D and H*K, change together or not at all.
    for pair in combinations(bound, 2):
        for factor in FACTORS:
            yield from _some(_tried(rule, first, _scaled(base, dict.fromkeys(pair, factor))))
    # The last has a start before its end, and both inside of an extent that comes first.
    for factors in ((2, 3, 5, 7, 11, 13, 17, 19), (19, 5, 3, 13, 2, 7, 11, 17), (19, 2, 7, 13, 3, 17, 5, 11)):
        yield from _some(_tried(rule, first, _scaled(base, dict(zip(free, factors, strict=False)))))


def _some(trial: Trial | None) -> Iterator[Trial]:
    if trial is not None:
        yield trial


def _scaled(base: Sizes, factors: Mapping[str, int]) -> Sizes:
    return {name: max(value, 1) * factors[name] if name in factors else value for name, value in base.items()}


def _tried(rule: Rule, first: Trial, sizes: Sizes) -> Trial | None:
    """Return what a rule yields at some sizes, where it yields as many results of as many dimensions as at first."""
    shapes = rule(sizes)
    same = shapes is not None and list(map(len, shapes)) == list(map(len, first.shapes))
    return Trial(sizes, shapes) if same and shapes is not None else None


class _Candidates:
    """Expressions with their values at every trial."""

    def __init__(self, trials: Sequence[Trial], groups: Sequence[Sequence[IntExpr]]) -> None:
        self._trials = trials
        atoms = [simplified(dim) for group in groups for dim in group if symbolic.names(dim)]
        self._atoms = self._with_values(atoms)
        self._joined = self._with_values(_joined(groups))

    def _with_values(self, exprs: Sequence[IntExpr]) -> dict[IntExpr, tuple[int, ...]]:
        found: dict[IntExpr, tuple[int, ...]] = {}
        for expr in exprs:
            values = self._values(expr)
            if values is not None:
                found.setdefault(expr, values)
        return found

    def _values(self, expr: IntExpr) -> tuple[int, ...] | None:
        try:
            return tuple(symbolic.evaluate(expr, trial.sizes.__getitem__) for trial in self._trials)
        except symbolic.DivisionError:
            return None

    def dim(self, wanted: Sequence[int]) -> IntExpr | None:
        """Return the expression for a dimension that has these values; None where they vary as no candidate does."""
        values = tuple(wanted)
        varies = len(set(values)) > 1
        if not varies and any(len(set(found)) > 1 for found in self._atoms.values()):
            return self._unchanged(values)
        for exprs in (self._atoms, self._joined):
            for expr, found in exprs.items():
                if found == values:
                    return expr
        if varies:
            for exprs in (self._atoms, self._joined):
                for expr, found in exprs.items():
                    made = self._scaled(expr, found, values) or self._divided(expr, found, values)
                    if made is not None:
                        return made
        return None if varies else Const(values[0])

    def _unchanged(self, values: tuple[int, ...]) -> IntExpr:
        """Return a name for a dimension that no trial changed, where no trial could change the name either."""
        return next((expr for expr, found in self._atoms.items() if found == values), Const(values[0]))

    def _scaled(self, expr: IntExpr, found: tuple[int, ...], values: tuple[int, ...]) -> IntExpr | None:
        """Return ``a*expr+b`` with whole numbers, where that has the values."""
        slope = _slope(found, values)
        if slope is None or slope.denominator != 1 or slope.numerator <= 0:
            return None
        return self._agreeing(BinOp("*", Const(slope.numerator), expr), values)

    def _divided(self, expr: IntExpr, found: tuple[int, ...], values: tuple[int, ...]) -> IntExpr | None:
        """Return ``expr/q+d``, or that of a rounded quotient, where it has the values."""
        slope = _slope(found, values)
        if slope is None or slope.numerator != 1 or not 1 < slope.denominator <= MOST_DIVISOR:
            return None
        by = Const(slope.denominator)
        exact = self._agreeing(BinOp("/", expr, by), values)
        if exact is not None:
            return exact
        for offset in range(slope.denominator):
            shifted = expr if offset == 0 else BinOp("-", expr, Const(offset))
            made = self._agreeing(BinOp("floor", shifted, by), values)
            if made is not None:
                return made
        return self._agreeing(BinOp("ceil", expr, by), values)

    def _agreeing(self, expr: IntExpr, values: tuple[int, ...]) -> IntExpr | None:
        """Return an expression plus the number that gives it the values, if one does."""
        found = self._values(expr)
        if found is None:
            return None
        gap = values[0] - found[0]
        if any(value - own != gap for value, own in zip(values, found, strict=True)):
            return None
        return simplified(BinOp("+" if gap >= 0 else "-", expr, Const(abs(gap))))


def _slope(found: tuple[int, ...], values: tuple[int, ...]) -> Fraction | None:
    """Return by how much a value grows with a candidate, over the widest distance between trials."""
    low, high = min(range(len(found)), key=found.__getitem__), max(range(len(found)), key=found.__getitem__)
    if found[low] == found[high]:
        return None
    return Fraction(values[high] - values[low], found[high] - found[low]).limit_denominator(MOST_DIVISOR)


def _joined(groups: Sequence[Sequence[IntExpr]]) -> list[IntExpr]:
    """Return products of neighbouring dimensions, and sums and products of two or of one axis of every group."""
    found: list[IntExpr] = []
    for group in groups:
        for start, end in combinations(range(len(group) + 1), 2):
            if end - start > 1:
                found.append(_all("*", group[start:end]))
    longest = max(map(len, groups), default=0)
    found += [_all("+", [group[axis] for group in groups if axis < len(group)]) for axis in range(longest)]
    dims = list(dict.fromkeys(dim for group in groups for dim in group))[:MOST_NAMES]
    pairs = [*combinations(dims, 2), *((dim, dim) for dim in dims)]
    found += [BinOp(sign, left, right) for sign in ("+", "*") for left, right in pairs]
    return [simplified(expr) for expr in found if symbolic.names(expr)]


def _all(sign: str, dims: Sequence[IntExpr]) -> IntExpr:
    found = dims[0]
    for dim in dims[1:]:
        found = BinOp("+" if sign == "+" else "*", found, dim)
    return found
