"""What is certain of sizes: their bounds, the conditions that hold, and what follows from both."""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from openinfer.affine import Index, Interval, Quotient, Remainder, Var
from openinfer.affine.index import variables_of
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.lets import Let, LetKind, divisor, positive, sources, substituted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.affine.index import Atom

DEPTH = 2
"""How many conditions are added up to prove another one: every shape rule of the catalogue is decided by two."""

MOST_SPLITS = 2
"""How many symbols are replaced by their parts: those of a clipped range that begins at a clipped place."""

MANY_CONDITIONS = 28
"""From this number of conditions on one is added at a time, since the pairs are tried for every term."""

_Division: TypeAlias = Quotient | Remainder


class Knowledge:
    """Bounds of symbols and conditions on them, from which other conditions are proved.

    Proving is sound and incomplete: None is the answer also where a condition holds that two others do not add up to.
    """

    def __init__(self, bounds: Mapping[str, Interval]) -> None:
        self._bounds = dict(bounds)
        self._conditions: list[Condition] = []
        self._described: set[Atom] = set()
        self._divisions: set[Atom] = set()
        self._open_divisions: list[_Division] = []
        self._answers: dict[Condition, bool] = {}
        self._open_conditions: set[Condition] = set()
        self._intervals: dict[Atom, Interval] = {}
        self._splits = 0
        self._running: dict[tuple[int, frozenset[Index]], Knowledge] = {}

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What was assumed, and what follows from the meaning of quotients, remainders and computed symbols."""
        return tuple(self._conditions)

    def declare(self, name: str, bounds: Interval) -> None:
        """Take in the bounds of a symbol that no condition has named so far."""
        self._bounds[name] = bounds
        self._intervals.clear()

    def assume(self, condition: Condition) -> None:
        """Take in a condition that holds."""
        self._describe(condition.index)
        self._reopen()
        self._conditions.append(condition)
        if condition.relation is Relation.UNEQUAL:
            # A size that is not 0 and not below 0 is at least 1.
            for index in (condition.index, -condition.index):
                if self.is_at_least(index, 0):
                    self._conditions.append(Condition(index - 1, Relation.AT_LEAST))
        elif condition.relation is Relation.EQUAL:
            self._conditions += _multiples(condition.index)
        else:
            edge = Condition(condition.index, Relation.UNEQUAL)
            if edge in self._conditions:
                self._conditions.append(Condition(condition.index - 1, Relation.AT_LEAST))
        for division in tuple(self._open_divisions):
            self._describe_division(division)

    def certain(self, condition: Condition) -> bool | None:
        """Return whether a condition holds, or None where that is open."""
        if condition in self._open_conditions:
            return None
        try:
            return self._answers[condition]
        except KeyError:
            self._describe(condition.index)
            answer = self._certain(condition)
            if answer is None:
                self._open_conditions.add(condition)
            else:
                self._answers[condition] = answer
            return answer

    def _reopen(self) -> None:
        """Forget which questions are open: a condition more may decide them. What is certain stays certain."""
        self._open_conditions.clear()

    # Facts about indices that are made of sizes and loop variables

    def is_never_negative(self, index: Index) -> bool:
        """Return whether an index is at least 0 for certain."""
        return self.certain(Condition(index, Relation.AT_LEAST)) is True

    def where_run(self, extents: frozenset[Index]) -> Knowledge:
        """Return what is certain where loops of these extents run at least once."""
        key = (len(self._conditions), extents)
        if key not in self._running:
            known = Knowledge(self._bounds)
            known._conditions, known._described = list(self._conditions), set(self._described)
            known._divisions, known._open_divisions = set(self._divisions), list(self._open_divisions)
            for extent in extents:
                known._describe(extent)
                if not known.is_at_least(extent, 1):
                    known.assume(Condition(extent - 1, Relation.AT_LEAST))
            self._running[key] = known
        return self._running[key]

    def extent_of_runs(self, extent: Index) -> Index:
        """Return the extent of a loop that runs at least once: ``e`` for ``max(e, 0)``."""
        return positive(extent)

    def divisor(self, index: Index) -> Index:
        """Return a positive index as indices divide by it: a sum is one symbol."""
        return divisor(index)

    def limits(self, index: Index) -> bool:
        """Return whether a condition that is not an equation says something of the sizes of an index."""
        names = sources(index)
        return any(
            condition.relation is Relation.AT_LEAST and names & sources(condition.index)
            for condition in self._conditions
        )

    def _certain(self, condition: Condition) -> bool | None:
        index = condition.index
        bounds = self._interval(index)
        if bounds.high is not None and bounds.high < 0:
            # The search for a proof of the opposite takes long where sizes are divided many times over.
            return condition.relation is Relation.UNEQUAL
        if condition.relation is Relation.AT_LEAST:
            return True if self.is_at_least(index, 0) else False if self.is_at_least(-index, 1) else None
        is_zero = self._is_zero(index)
        return None if is_zero is None else is_zero is (condition.relation is Relation.EQUAL)

    def _is_zero(self, index: Index) -> bool | None:
        if index.constant is not None:
            return index.constant == 0
        if Condition(index, Relation.UNEQUAL) in self._conditions or not _may_be_zero(index):
            return False
        least, most = self.is_at_least(index, 0), self.is_at_least(-index, 0)
        if least and most:
            return True
        return False if (least and self.is_at_least(index, 1)) or (most and self.is_at_least(-index, 1)) else None

    def is_at_least(self, index: Index, low: int) -> bool:
        """Return whether ``index >= low`` is certain."""
        rest = index - low
        if self._proved(rest, DEPTH) or self._proved_without_quotients(rest) or self._proved_by_strides(rest):
            return True
        # A divisor is one symbol, also where it is a quotient. Within a division it stays one.
        atoms = {atom for factors, _ in rest.terms for atom in factors}
        alone = {atom for atom in atoms if isinstance(atom, Var)}
        divided = {var for atom in atoms - alone for var in variables_of(atom)}
        divisors: dict[Var, Index] = {var: var.parts[0] for var in alone - divided if _is_of(var, LetKind.SUM)}
        return bool(divisors) and self._proved_without_quotients(rest.substituted(divisors))

    def _proved(self, index: Index, depth: int) -> bool:
        """Return whether an index is at least 0 by bounds, by its computed symbols, or less some conditions."""
        low = self._interval(index).low
        if low is not None and low >= 0:
            return True
        if depth == 0:
            return False
        if self._splits < MOST_SPLITS and any(map(self._proved_for_parts, self._choices(index))):
            return True
        depth = 1 if len(self._conditions) > MANY_CONDITIONS else depth
        return any(self._proved(rest, depth - 1) for rest in self._less_conditions(index))

    def _less_conditions(self, index: Index) -> Iterator[Index]:
        """Yield indices that are at most a given one, each less a condition that cancels one of its terms."""
        factors = dict(index.terms)
        for condition in self._conditions:
            if condition.relation is Relation.UNEQUAL:
                continue
            for atoms, factor in condition.index.terms:
                times, rest = divmod(factors.get(atoms, 0) if atoms else 0, factor)
                if times and not rest and (condition.relation is Relation.EQUAL or times > 0):
                    yield index - condition.index * times

    def _choices(self, index: Index) -> Iterator[tuple[Index, ...]]:
        """Yield the cases of an index: a maximum that is subtracted, a minimum, a common extent is one of its parts."""
        for atoms, factor in index.terms:
            let = atoms[0] if len(atoms) == 1 else None
            if not isinstance(let, Let):
                continue
            others = index - Index(((atoms, factor),))
            # A part may not be positive, so that no quotient by the symbol can be one by the part.
            is_part = let.kind in (LetKind.MAX if factor < 0 else LetKind.MIN, LetKind.COMMON)
            if is_part and let not in others.variables():
                yield tuple(others + part * factor for part in let.parts)

    def _proved_for_parts(self, cases: tuple[Index, ...]) -> bool:
        # Each case would be split again at every other symbol.
        self._splits += 1
        try:
            return all(self._proved(index, DEPTH) for index in cases)
        finally:
            self._splits -= 1

    def _proved_without_quotients(self, index: Index) -> bool:
        """Return whether an index with a quotient is at least 0 after multiplying by the divisor.

        ``rest - of // by >= 0`` means ``of < by * (rest + 1)``, and ``rest + of // by >= 0`` means
        ``of >= -by * rest``, where ``by`` is positive.
        """
        for term in index.terms:
            atoms, factor = term
            if len(atoms) == 1 and isinstance(atoms[0], Quotient) and abs(factor) == 1:
                quotient, rest = atoms[0], index - Index((term,))
                if not self._is_above_zero(quotient):
                    continue
                whole = quotient.by * rest
                if self._proved(whole + quotient.of if factor == 1 else whole + quotient.by - 1 - quotient.of, DEPTH):
                    return True
        return False

    def _proved_by_strides(self, index: Index) -> bool:
        """Return whether an index is at least 0 whether an extent whose stride it has is 1 or not."""
        strides = sorted((var for var in index.variables() if _is_of(var, LetKind.STRIDE)), key=str)
        if not strides:
            return False
        stride, (extent,) = strides[0], strides[0].parts
        constant: dict[Var, Index] = {stride: Index()}
        repeated = self._where(constant, Condition(extent - 1, Relation.EQUAL))
        values: dict[Var, Index] = {stride: Index.of(1)}
        for var in index.variables():
            if _is_of(var, LetKind.COMMON) and var.parts[0] == extent:
                values[var] = extent
        walked = self._where(values, Condition(extent - 1, Relation.UNEQUAL))
        return all(
            knowledge.is_never_negative(index.substituted(cases))
            for knowledge, cases in ((repeated, constant), (walked, values))
        )

    def _where(self, values: Mapping[Var, Index], condition: Condition) -> Knowledge:
        """Return what is certain where symbols have some values and a condition holds."""
        knowledge = Knowledge(self._bounds)
        for assumed in self._conditions:
            knowledge.assume(Condition(assumed.index.substituted(values), assumed.relation))
        knowledge.assume(condition)
        return knowledge

    def solutions(self) -> dict[Var, Index]:
        """Return the symbols that equations determine, each by symbols that remain.

        What is at least 0 and at most 0 is an equation: a size of at most one place that has one.

        Of two symbols that are equal the one remains whose bounds were stated first.
        """
        rank = {name: number for number, name in enumerate(self._bounds)}
        solved: dict[Var, Index] = {}
        for condition in self._conditions:
            is_zero = condition.relation is Relation.AT_LEAST and self._interval(condition.index).high == 0
            if condition.relation is not Relation.EQUAL and not is_zero:
                continue
            values = _determined(substituted(condition.index, solved))
            var = max(values, key=lambda var: rank.get(var.name, -1), default=None)
            if var is not None:
                value = values[var]
                solved = {name: substituted(other, {var: value}) for name, other in solved.items()} | {var: value}
        return solved

    # Bounds

    def interval(self, index: Index) -> Interval:
        """Return bounds of an index from those of its symbols alone."""
        self._describe(index)
        return self._interval(index)

    def _interval(self, index: Index) -> Interval:
        return index.interval_by(self._interval_of)

    def corners(self, index: Index) -> list[int] | None:
        """Return the values of a polynomial where each symbol is least or largest: its extremes are among them.

        None: it is none, it is unbounded, or a symbol is squared, so that an extreme may lie between.
        """
        if not index.is_multilinear:
            return None
        ends: dict[str, tuple[int, ...]] = {}
        for atom in {atom for atoms, _ in index.terms for atom in atoms}:
            if not isinstance(atom, Var) or isinstance(atom, Let):
                return None
            bounds = self._interval_of(atom)
            if bounds.low is None or bounds.high is None:
                return None
            ends[atom.name] = (bounds.low, bounds.high)
        return [index.evaluate(dict(zip(ends, corner, strict=True))) for corner in product(*ends.values())]

    def _interval_of(self, atom: Atom) -> Interval:
        if isinstance(atom, Var) and not isinstance(atom, Let):
            return self._bounds.get(atom.name, atom.interval)
        bounds = self._intervals.get(atom)
        if bounds is None:
            bounds = self._intervals[atom] = self._interval_of_parts(atom)
        return bounds

    def _interval_of_parts(self, atom: Let | _Division) -> Interval:
        if isinstance(atom, Let):
            return _of_let(atom.kind, [self._interval(part) for part in atom.parts])
        if not self._is_above_zero(atom):
            return Interval(None, None)
        of, by = self._interval(atom.of), self._interval(atom.by)
        return _of_quotient(of, by) if isinstance(atom, Quotient) else _of_remainder(of, by)

    def _is_above_zero(self, division: _Division) -> bool:
        """Return whether the divisor was proved to be positive: nothing is certain of other divisions."""
        return division.by.constant is not None or division in self._divisions

    def _describe(self, index: Index) -> None:
        """Note what follows from the meaning of quotients, remainders and computed symbols of an index."""
        for atoms, _ in index.terms:
            for atom in atoms:
                if atom in self._described or (isinstance(atom, Var) and not isinstance(atom, Let)):
                    continue
                self._described.add(atom)
                for part in atom.parts if isinstance(atom, Let) else (atom.of, atom.by):
                    self._describe(part)
                if isinstance(atom, Let):
                    self._note_meaning(atom)
                else:
                    self._open_divisions.append(atom)
                    self._describe_division(atom)

    def _describe_division(self, division: _Division) -> None:
        """Note what follows from a division once its divisor is certainly positive."""
        if self.is_at_least(division.by, 1):
            self._open_divisions.remove(division)
            self._divisions.add(division)
            if division.by.constant is None:
                self._intervals.clear()
            self._note_meaning(division)

    def _note_meaning(self, atom: Let | _Division) -> None:
        self._reopen()
        self._conditions += self._meaning(atom)
        if not isinstance(atom, Let):
            self._conditions += self._together(atom)

    def _together(self, division: _Division) -> Iterator[Condition]:
        """Yield what a quotient and the remainder of the same division, of which both occur, add up to."""
        of, by = division.of, division.by
        if {Quotient(of, by), Remainder(of, by)} <= self._divisions:
            yield Condition(of - by * Index.of(Quotient(of, by)) - Index.of(Remainder(of, by)), Relation.EQUAL)

    def _meaning(self, atom: Let | _Division) -> Iterator[Condition]:
        own = Index.of(atom)
        match atom:
            case Quotient():
                rest = atom.of - atom.by * own
                differences = [rest, atom.by - 1 - rest]
            case Remainder():
                differences = [own, atom.by - 1 - own]
                if self._proved(atom.of, 1):
                    differences.append(atom.of - own)
            case Let(kind=LetKind.MAX):
                differences = [own - part for part in atom.parts]
            case Let(kind=LetKind.MIN):
                differences = [part - own for part in atom.parts]
            case Let(kind=LetKind.FROM_END):
                place, extent = atom.parts
                # What is added where a place is negative makes it no less, unless the extent is negative as well.
                differences = [own - place] if self._proved(extent, 1) else []
                # A place that is not before the first one, counted from the end, is one of an extent, and so on.
                differences += [own] if self._proved(place + extent, DEPTH) else []
                differences += [extent - 1 - own] if self._proved(extent - 1 - place, DEPTH) else []
            case Let(kind=LetKind.SUM):
                yield Condition(own - atom.parts[0], Relation.EQUAL)
                return
            case Let():
                # Its bounds say the rest.
                differences = []
        for difference in differences:
            yield Condition(difference, Relation.AT_LEAST)


def _multiples(index: Index) -> Iterator[Condition]:
    """Yield what a remainder of 0 means: a size is the divisor times its quotient, the symbol that divides by it."""
    for atoms, _ in index.terms:
        atom = atoms[0] if len(index.terms) == len(atoms) == 1 else None
        if isinstance(atom, Remainder):
            quotient = divisor(Index.of(Quotient(atom.of, atom.by)))
            yield Condition(atom.of - atom.by * quotient, Relation.EQUAL)


def _determined(index: Index) -> dict[Var, Index]:
    """Return the symbols for which ``index == 0`` can be solved, with what they are equal to."""
    values: dict[Var, Index] = {}
    for atoms, factor in index.terms:
        atom = atoms[0] if len(atoms) == 1 and abs(factor) == 1 else None
        if isinstance(atom, Var) and not isinstance(atom, Let):
            rest = index - Index.of(atom) * factor
            if atom.name not in sources(rest):
                values[atom] = rest * -factor
    return values


def _is_of(var: Var, kind: LetKind) -> TypeGuard[Let]:
    return isinstance(var, Let) and var.kind is kind


def _may_be_zero(index: Index) -> bool:
    """Return whether the common factor of the terms with symbols divides the constant: 2*T - 1 is never 0."""
    constant = next((factor for atoms, factor in index.terms if not atoms), 0)
    return constant % gcd(*(factor for atoms, factor in index.terms if atoms)) == 0


def _of_let(kind: LetKind, parts: list[Interval]) -> Interval:
    match kind:
        case LetKind.MAX:
            lows = [part.low for part in parts if part.low is not None]
            highs = [part.high for part in parts if part.high is not None]
            return Interval(max(lows, default=None), max(highs) if len(highs) == len(parts) else None)
        case LetKind.MIN:
            return _negated(_of_let(LetKind.MAX, [_negated(part) for part in parts]))
        case LetKind.FROM_END:
            return _from_end(*parts)
        case LetKind.COMMON:
            lows, highs = zip(*((part.low, part.high) for part in parts), strict=True)
            return Interval(None if None in lows else min(lows), None if None in highs else max(highs))
        case LetKind.STRIDE:
            return Interval(0, 1)
        case LetKind.SUM:
            return parts[0]
        case LetKind.FLOOR | LetKind.CEIL | LetKind.EXACT | LetKind.REST:
            return _of_division(kind, *parts)


def _of_division(kind: LetKind, of: Interval, by: Interval) -> Interval:
    """Return the values of a division of the language: others than of 0 or more, by 1 or more, have none."""
    of = Interval(max(of.low or 0, 0), None if of.high is None else max(of.high, 0))
    by = Interval(max(by.low or 1, 1), None if by.high is None else max(by.high, 1))
    if kind is LetKind.REST:
        return _of_remainder(of, by)
    return _negated(_of_quotient(_negated(of), by)) if kind is LetKind.CEIL else _of_quotient(of, by)


def _negated(of: Interval) -> Interval:
    return of * Interval(-1, -1)


def _from_end(place: Interval, extent: Interval) -> Interval:
    if place.low is not None and place.low >= 0:
        return place
    low = None if place.low is None or extent.low is None else min(0, place.low + extent.low)
    high = None if place.high is None or extent.high is None else max(place.high, extent.high - 1)
    return Interval(low, high)


def _of_quotient(of: Interval, by: Interval) -> Interval:
    least, most = max(by.low or 1, 1), by.high
    low = None if of.low is None else of.low // least if of.low < 0 else of.low // most if most else 0
    high = None if of.high is None else of.high // least if of.high >= 0 else of.high // most if most else -1
    return Interval(low, high)


def _of_remainder(of: Interval, by: Interval) -> Interval:
    most = None if by.high is None else by.high - 1
    if of.low is not None and of.low >= 0 and of.high is not None:
        most = of.high if most is None else min(most, of.high)
    return Interval(0, most)
