"""Variables and the integer polynomials over them that address elements."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer.affine.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class Facts(Protocol):
    """Facts about parameters, by which more quotients and remainders fold and more places lie inside for certain."""

    def is_never_negative(self, index: Index) -> bool:
        """Return whether an index is at least 0 for certain."""
        ...

    def where_run(self, extents: frozenset[Index]) -> Facts:
        """Return the facts that hold where loops of these extents run at least once."""
        ...

    def extent_of_runs(self, extent: Index) -> Index:
        """Return the extent of a loop that runs at least once, such as ``T - 1`` for ``max(T - 1, 0)``."""
        ...

    def divisor(self, index: Index) -> Index:
        """Return a positive index as a product of parameters, by which indices can be divided."""
        ...


_TEXT, _INTERVAL = attrgetter("text"), attrgetter("interval")

FACTS: ContextVar[Facts | None] = ContextVar("FACTS", default=None)
"""The facts that hold for the indices that are being made; None: bounds of variables are all that is certain."""


class Arithmetic:
    """The operators ``+ - * // %`` of variables and indices."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Index:
        if type(other) is int:
            return _moved(Index.of(self), other)
        left, right = Index.of(self), Index.of(other)
        if not (left.terms and right.terms):
            return left if left.terms else right
        return _merged((*left.terms, *right.terms))

    __radd__ = __add__

    def __neg__(self) -> Index:
        return Index(tuple((atoms, -factor) for atoms, factor in Index.of(self).terms))

    def __sub__(self, other: Operand) -> Index:
        if type(other) is int:
            return _moved(Index.of(self), -other)
        left, right = Index.of(self), Index.of(other)
        if not right.terms:
            return left
        return _merged([*left.terms, *[(atoms, -factor) for atoms, factor in right.terms]])

    def __rsub__(self, other: Operand) -> Index:
        return -Index.of(self) + other

    def __mul__(self, other: Operand) -> Index:
        left = Index.of(self)
        if type(other) is int and other == 1:
            return left
        right = Index.of(other)
        factor = right.constant
        if factor is not None:
            return Index(tuple((atoms, number * factor) for atoms, number in left.terms)) if factor else Index()
        return _merged((tuple(sorted(a + b, key=_TEXT)), c * d) for a, c in left.terms for b, d in right.terms)

    __rmul__ = __mul__

    def __floordiv__(self, by: Operand) -> Index:
        """Return the quotient by a positive index, rounded down: folded where the bounds of the index allow it.

        Raises:
            ValueError: ``by`` is a constant below 1, or has more than one term.
        """
        divisor = _divisor(by)
        if divisor.constant == 1:
            return Index.of(self)
        multiple, rest = Index.of(self).divided(divisor)
        return multiple if rest.is_within(0, divisor) else multiple + Index.of(Quotient(rest, divisor))

    def __mod__(self, by: Operand) -> Index:
        """Return the remainder by a positive index, never negative: folded where the bounds of the index allow it.

        Raises:
            ValueError: ``by`` is a constant below 1, or has more than one term.
        """
        divisor = _divisor(by)
        _, rest = Index.of(self).divided(divisor)
        return rest if rest.is_within(0, divisor) else Index.of(Remainder(rest, divisor))


@dataclass(frozen=True, slots=True)
class Var(Arithmetic):
    """A loop variable that counts from 0 up to ``extent`` (exclusive), or a parameter known at run time.

    Attributes:
        name: an identifier; within one stage or loop program it names one variable.
        extent: number of values, an index over parameters where it is known at run time only; None: the variable is
            a parameter, any integer from 0 on.
    """

    name: str
    extent: int | Index | None = None

    def __hash__(self) -> int:
        # Variables are keys of nearly every table of a schedule: what tells nearly all of them apart is enough.
        return hash(self.name)

    @property
    def interval(self) -> Interval:
        """What values the variable can have."""
        if isinstance(self.extent, int):
            return Interval(0, max(self.extent - 1, 0))
        return Interval(0, None)

    @property
    def text(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """``of // by``, rounded down, where it could not be folded. ``by`` is positive."""

    of: Index
    by: Index
    text: str = field(init=False, repr=False, compare=False)
    _interval: Interval | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"({self.of})//{_divisor_text(self.by)}")

    def __hash__(self) -> int:
        # A text keeps its hash: that of parts would be computed again at every level of divisions within one another.
        return hash(self.text)

    @property
    def interval(self) -> Interval:
        # Kept: those of divisions within one another would be computed again at every level.
        interval = self._interval
        if interval is None:
            interval = _interval_of_quotient(self.of.interval, self.by.constant)
            object.__setattr__(self, "_interval", interval)
        return interval


@dataclass(frozen=True, slots=True)
class Remainder:
    """``of % by``, never negative, where it could not be folded. ``by`` is positive."""

    of: Index
    by: Index
    text: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"({self.of})%{_divisor_text(self.by)}")

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def interval(self) -> Interval:
        by = self.by.constant
        return Interval(0, None if by is None else by - 1)


Atom: TypeAlias = Var | Quotient | Remainder
Term: TypeAlias = tuple[tuple[Atom, ...], int]
Operand: TypeAlias = "Arithmetic | Quotient | Remainder | int"


@dataclass(frozen=True, slots=True)
class Index(Arithmetic):
    """A sum of integer multiples of products of atoms.

    Attributes:
        terms: (atoms, coefficient) in canonical order: no coefficient is 0, no two terms have the same atoms, and the
            constant, whose atoms are (), comes last. Equal terms therefore mean equal polynomials.
    """

    terms: tuple[Term, ...] = ()

    @staticmethod
    def of(value: Operand) -> Index:
        """Return ``value`` as an index; other classes than those of this module say what they are by ``__affine__``."""
        if isinstance(value, Index):
            return value
        if isinstance(value, (Var, Quotient, Remainder)):
            return Index((((value,), 1),))
        as_index = None if type(value) is int else getattr(type(value), "__affine__", None)
        if as_index is not None:
            return as_index(value)
        if not isinstance(value, int):
            raise TypeError(f"an index is made of integers, variables and indices, found {value!r}")
        return Index((((), value),)) if value else Index()

    def divided(self, by: Index) -> tuple[Index, Index]:
        """Return (multiple, rest), self = by * multiple + rest, where the rest has no term that ``by`` divides."""
        ((divisor, scale),) = by.terms
        multiple: list[Term] = []
        rest: list[Term] = []
        for atoms, factor in self.terms:
            left = _without(atoms, divisor)
            if left is None or (left and factor % scale):
                rest.append((atoms, factor))
            else:
                multiple.append((left, factor // scale))
                rest.append((atoms, factor % scale))
        return _merged(multiple), _merged(rest)

    def __str__(self) -> str:
        """Return canonical text, which `parse_index` reads back."""
        if not self.terms:
            return "0"
        first, *others = [_term_text(atoms, factor) for atoms, factor in self.terms]
        signed = (f" - {text[1:]}" if text.startswith("-") else f" + {text}" for text in others)
        return first + "".join(signed)

    @property
    def text(self) -> str:
        return str(self)

    @property
    def constant(self) -> int | None:
        """The value of an index without variables, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def is_multilinear(self) -> bool:
        """Whether no atom is multiplied by itself, so that the extremes lie where each atom is least or largest."""
        return all(len(set(atoms)) == len(atoms) for atoms, _ in self.terms)

    def coefficient(self, var: Var) -> int | None:
        """Return the factor of a variable that occurs linearly and alone (0 where it does not occur), else None."""
        found = 0
        for atoms, factor in self.terms:
            # Schedules are weighed by these factors, many thousand times: most terms are a variable alone.
            if len(atoms) == 1 and isinstance(atoms[0], Var):
                if atoms[0].name == var.name and atoms[0] == var:
                    found = factor
            elif any(var in variables_of(atom) for atom in atoms):
                return None
        return found

    def variables(self) -> frozenset[Var]:
        """Return every variable that occurs, also those within quotients and remainders."""
        variables: set[Var] = set()
        for atoms, _ in self.terms:
            for atom in atoms:
                variables.update((atom,) if isinstance(atom, Var) else variables_of(atom))
        return frozenset(variables)

    @property
    def interval(self) -> Interval:
        """Bounds of the value; exact for sums of distinct variables."""
        return self.interval_by(_INTERVAL)

    def interval_by(self, interval_of: Callable[[Atom], Interval]) -> Interval:
        """Return the bounds of the value where atoms have these."""
        total = Interval(0, 0)
        for atoms, factor in self.terms:
            product = Interval(factor, factor)
            for atom in atoms:
                product = product * interval_of(atom)
            total = total + product
        return total

    def substituted(self, values: Mapping[Var, Index]) -> Index:
        """Return the index with variables replaced; quotients and remainders are folded again."""
        terms: list[Term] = []
        for atoms, factor in self.terms:
            product, *others = [_substituted(atom, values) for atom in atoms] or [Index.of(1)]
            for other in others:
                product = product * other
            terms += (product * factor).terms
        return _merged(terms)

    def is_within(self, low: int, extent: int | Index, around: Iterable[Var] = ()) -> bool:
        """Return whether ``low <= self < extent`` is certain, whatever the parameters are.

        Args:
            around: variables of loops in which the index is used: where it is, each of these runs.
        """
        bounds, size = self.interval, extent if isinstance(extent, int) else extent.constant
        facts = FACTS.get()
        if size is not None and bounds.low is not None and bounds.high is not None:
            is_certain = low <= bounds.low and bounds.high < size
            if is_certain or facts is None:
                return is_certain
        if low == 0 and self._counts_to(extent):
            return True
        if facts is not None:
            facts = facts.where_run(_loop_extents((self, Index.of(extent), *map(Index.of, around))))
        return _is_never_negative(self - low, facts) and _is_never_negative(Index.of(extent) - 1 - self, facts)

    def _counts_to(self, extent: int | Index) -> bool:
        """Whether the index is a loop variable of this extent."""
        if len(self.terms) != 1:
            return False
        atoms, factor = self.terms[0]
        var = atoms[0] if factor == 1 and len(atoms) == 1 else None
        return isinstance(var, Var) and var.extent is not None and Index.of(var.extent) == Index.of(extent)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value where every variable has the value that ``values`` holds under its name.

        Works with NumPy arrays of integers as well.

        Raises:
            KeyError: a variable has no value.
        """
        total = 0
        for atoms, factor in self.terms:
            product = factor
            for atom in atoms:
                product = product * _atom_value(atom, values)
            total = total + product
        return total


def variables_of(atom: Atom) -> frozenset[Var]:
    """Return the variables of an atom."""
    return frozenset((atom,)) if isinstance(atom, Var) else atom.of.variables() | atom.by.variables()


def _interval_of_quotient(bounds: Interval, by: int | None) -> Interval:
    low, high = bounds.low, bounds.high
    if by is None:
        return Interval(None if low is None else min(low, 0), None if high is None else max(high, 0))
    return Interval(None if low is None else low // by, None if high is None else high // by)


def _term_key(term: Term) -> tuple[bool, tuple[str, ...]]:
    return (not term[0], tuple([atom.text for atom in term[0]]))


def _moved(index: Index, by: int) -> Index:
    """Return an index and a number: the constant is its last term."""
    terms = index.terms
    if not by:
        return index
    if not terms or terms[-1][0]:
        return Index((*terms, ((), by)))
    constant = terms[-1][1] + by
    return Index((*terms[:-1], ((), constant)) if constant else terms[:-1])


def _merged(terms: Iterable[Term]) -> Index:
    total: dict[tuple[Atom, ...], int] = {}
    for atoms, factor in terms:
        total[atoms] = total.get(atoms, 0) + factor
    left = [term for term in total.items() if term[1]]
    if len(left) > 1:
        left.sort(key=_term_key)
    return Index(tuple(left))


def _divisor(by: Operand) -> Index:
    divisor, facts = Index.of(by), FACTS.get()
    if facts is not None and divisor.constant is None:
        divisor = facts.divisor(divisor)
    if len(divisor.terms) != 1 or divisor.terms[0][1] < 1:
        raise ValueError(f"indices are divided by a positive integer or product of parameters, found {divisor}")
    return divisor


def _without(atoms: tuple[Atom, ...], divisor: tuple[Atom, ...]) -> tuple[Atom, ...] | None:
    """Return the atoms that are left of a product divided by another; None: it does not divide."""
    left = list(atoms)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _divisor_text(by: Index) -> str:
    return str(by) if by.constant is not None or len(by.terms[0][0]) == by.terms[0][1] == 1 else f"({by})"


def _term_text(atoms: tuple[Atom, ...], factor: int) -> str:
    if not atoms:
        return str(factor)
    if factor == len(atoms) == 1:
        return atoms[0].text
    product = "*".join(_factors(atoms))
    if factor == 1:
        return product
    return f"-{product}" if factor == -1 else f"{factor}*{product}"


def _factors(atoms: tuple[Atom, ...]) -> Iterator[str]:
    """Yield the text of each atom, a quotient in parentheses: ``*`` and ``//`` bind equally."""
    for atom in atoms:
        yield atom.text if isinstance(atom, Var) else f"({atom.text})"


def _substituted(atom: Atom, values: Mapping[Var, Index]) -> Index:
    if isinstance(atom, Var):
        return values.get(atom, Index.of(atom))
    inner, by = atom.of.substituted(values), atom.by.substituted(values)
    return inner // by if isinstance(atom, Quotient) else inner % by


def _atom_value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, Var):
        return values[atom.name]
    inner, by = atom.of.evaluate(values), atom.by.evaluate(values)
    return inner // by if isinstance(atom, Quotient) else inner % by


def _is_never_negative(index: Index, facts: Facts | None) -> bool:
    """Return whether an index is at least 0 for certain.

    Where intervals do not decide, loop variables are replaced by the end of their range that makes the index least, so
    that ``n - 1 - i`` with ``i < n`` is seen to be at least 0. Those on which the range of another one depends come
    later: in ``n - i - j`` with ``j < n - i + 1``, ``j`` is replaced first.
    """
    low = index.interval.low
    if low is not None and (low >= 0 or facts is None):
        return low >= 0
    if facts is not None and facts.is_never_negative(index):
        return True
    for var in _in_order(index.variables()):
        slope = None if var.extent is None else _slope(index, var)
        if slope is None or var.extent is None:
            continue
        if _is_never_negative(slope, facts):
            return _is_never_negative(index.substituted({var: Index()}), facts)
        if _is_never_negative(-slope, facts):
            extent = Index.of(var.extent)
            end = extent if facts is None else facts.extent_of_runs(extent)
            return _is_never_negative(index.substituted({var: end - 1}), facts)
    less = _without_quotients(index)
    if less != index and _is_never_negative(less, facts):
        return True
    return facts is not None and any(_is_never_negative(other, facts) for other in _times_divisors(index))


def _loop_extents(indices: Iterable[Index]) -> frozenset[Index]:
    """Return the extents of loop variables that are known at run time only."""
    extents = (var.extent for index in indices for var in index.variables())
    return frozenset(extent for extent in extents if isinstance(extent, Index))


def _times_divisors(index: Index) -> Iterator[Index]:
    """Yield indices that are at least 0 where this one is: ``rest - of // by >= 0`` means ``of < by * (rest + 1)``."""
    for term in index.terms:
        atoms, factor = term
        if factor == -1 and len(atoms) == 1 and isinstance(atoms[0], Quotient):
            quotient = atoms[0]
            yield quotient.by * (index - Index((term,)) + 1) - 1 - quotient.of


def _in_order(variables: frozenset[Var]) -> list[Var]:
    ends = {var for each in variables for var in _end_variables(each)}
    return sorted(variables, key=lambda var: (var in ends, var.name))


def _end_variables(var: Var) -> frozenset[Var]:
    """Return the variables that the range of another one depends on, also by the ranges of these."""
    direct: frozenset[Var] = var.extent.variables() if isinstance(var.extent, Index) else frozenset()
    return direct.union(*map(_end_variables, direct))


def _without_quotients(index: Index) -> Index:
    """Return an index that is never greater, in which what is subtracted has no quotients ``c * (x // c)``."""
    total = Index()
    for atoms, factor in index.terms:
        term = Index(((atoms, factor),))
        if factor < 0 and len(atoms) == 1 and isinstance(atoms[0], Quotient):
            by = atoms[0].by.constant
            if by is not None and factor % by == 0:
                term = atoms[0].of * (factor // by)
        total = total + term
    return total


def _slope(index: Index, var: Var) -> Index | None:
    """Return the factor of a variable in which the index is linear, itself an index; None: it is not linear in it."""
    terms: list[Term] = []
    for atoms, factor in index.terms:
        times = atoms.count(var)
        if times > 1 or any(var in variables_of(atom) for atom in atoms if atom != var):
            return None
        if times:
            terms.append((_without(atoms, (var,)) or (), factor))
    return _merged(terms) if terms else None


def extent_of(axis: Var) -> int:
    """Return the extent of an axis.

    Raises:
        TypeError: it is known at run time only.
    """
    if not isinstance(axis.extent, int):
        raise TypeError(f"{axis.name} has the extent {axis.extent}, which is known at run time only")
    return axis.extent
