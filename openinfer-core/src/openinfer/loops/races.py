"""Whether iterations of a parallel loop touch one element, of which at least one writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within, is_mixed_radix
from openinfer.expr import tree
from openinfer.loops.bounds import under
from openinfer.loops.joined_lanes import joined_lanes
from openinfer.loops.nodes import (
    Across,
    Alloc,
    Bind,
    Fail,
    For,
    If,
    Join,
    Let,
    Load,
    Lookup,
    Number,
    Set,
    Store,
    Value,
)
from openinfer.loops.teams import phases, team
from openinfer.loops.tiles import TileLoad, TileStore, places_of_tile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.affine.index import Term
    from openinfer.loops.buffers import Buffer
    from openinfer.loops.nodes import Statement
    from openinfer.loops.tiles import Tiles


def find_race(var: Var, bind: Bind, body: Sequence[Statement]) -> str | None:
    """Return how iterations of a parallel loop over ``var`` may disturb one another, None where they never do.

    What one iteration writes outside of itself no other may write or read. That is certain where the address of a
    store is a mixed-radix number of ``var`` and the variables within, and other accesses have the same address, or one
    that differs from it by a distance that no two iterations have. A store under ``0 <= var < 1`` is one iteration's.
    Barriers part the accesses of the threads of a group; groups do not wait for one another. Lanes may all be added to
    one integer, whose order is free, where nothing else uses it (`joined_lanes`).
    """
    if var.extent in (0, 1):
        return None
    others: Sequence[Var] = ()
    held = 0
    parts: Sequence[Sequence[Statement]] = [body]
    if bind is Bind.LOCAL:
        (_, *others), body = team(For(var, bind, tuple(body)))
        parts = phases(body)
        held = prod(axis.extent if isinstance(axis.extent, int) else 0 for axis in (var, *others))
    own = set(_named(body))
    if bind is Bind.LANES:
        own |= joined_lanes(body)
    for part in parts:
        found = _Accesses(var, others, own, part, held).race()
        if found is not None:
            return f"iterations over {var.name} {found}"
    return None


def _named(body: Sequence[Statement]) -> Iterator[str]:
    """Yield the names of what every iteration has of its own."""
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from _named(inner)
            case Alloc(buffer):
                yield buffer.name
            case Let(name, _):
                yield name
            case _:
                pass


@dataclass(frozen=True, slots=True)
class _Access:
    """An element that statements touch where some tests hold; ``is_joint``: iterations do so at once, as a subgroup."""

    buffer: Buffer
    address: Index
    tests: tuple[Within, ...]
    is_joint: bool = False

    def __str__(self) -> str:
        return f"{self.buffer.name}[{self.address}]"


@dataclass(frozen=True, slots=True)
class _Digit:
    """What a variable adds to the distance of two addresses: a multiple of a step, from ``low`` to ``high``.

    ``is_parallel``: it is the variable of the parallel loop, which has another value in another iteration.
    """

    step: int
    low: int
    high: int
    is_parallel: bool = False


def _may_add_up_to(distance: int, digits: Sequence[_Digit]) -> bool:
    """Return whether digits, sorted by steps, may add up to a number.

    Of a mixed-radix number few values of each digit leave a distance that the shorter ones reach.
    """
    if not digits:
        return not distance
    first, *others = digits
    least, most = (sum(d.step * end for d, end in zip(others, ends, strict=True)) for ends in _ends(others))
    low = max(first.low, -((most - distance) // first.step))
    high = min(first.high, (distance - least) // first.step)
    return any(
        _may_add_up_to(distance - first.step * value, others)
        for value in range(low, high + 1)
        if value or not first.is_parallel
    )


def _ends(digits: Sequence[_Digit]) -> tuple[list[int], list[int]]:
    return [digit.low for digit in digits], [digit.high for digit in digits]


class _Accesses:
    """What the statements of one iteration touch outside of it."""

    def __init__(self, var: Var, others: Sequence[Var], own: set[str], body: Sequence[Statement], held: int) -> None:
        self._var = var
        self._held = held
        self._own = own
        self._inner: set[Var] = set(others)
        self._stores: list[_Access] = []
        self._loads: list[_Access] = []
        self._tests: tuple[Within, ...] = ()
        self._named: dict[Var, Index] = {}
        self._combined: set[str] = set()
        self._scalars: list[str] = []
        self._apart: dict[tuple[tuple[Term, ...], tuple[Term, ...], int], bool] = {}
        self._collect(body)

    def race(self) -> str | None:
        if self._scalars:
            return f"set one scalar, {self._scalars[0]}"
        for store in self._stores:
            if store.buffer.name in self._own:
                continue
            is_first = self._is_of_first(store)
            if not is_first and not store.is_joint and not self._has_own(store):
                return f"may write one element, {store}"
            if store.buffer.name in self._combined:
                return f"write {store.buffer.name}, whose elements are combined"
            for other in (*self._stores, *self._loads):
                if other.buffer != store.buffer or _are_apart(other.address, store.address):
                    continue
                if store.is_joint and other.is_joint:
                    continue
                if self._is_of_first(other) if is_first else other.address == store.address:
                    continue
                if not self._is_separate(store, other):
                    return f"write {store} and use {other}"
        return None

    def _has_own(self, store: _Access) -> bool:
        """Return whether each iteration stores to elements of its own."""
        if self._is_injective(store.address) or self._is_separate(store, store):
            return True
        return self._is_injective(under(store.address, store.tests))

    def _is_of_first(self, access: _Access) -> bool:
        """Return whether only the first iteration touches an element."""
        return Within(Index.of(self._var), Index.of(1)) in access.tests

    def _is_in_block(self, one: _Access, other: _Access) -> bool:
        """Return whether each iteration accesses both only in a block of elements of its own."""
        step = one.address.coefficient(self._var)
        if not step or step != other.address.coefficient(self._var):
            return False
        varying = {self._var, *self._inner, *self._named}
        found = [under(access.address, access.tests) - self._var * step for access in (one, other)]
        parts = [_split(index, varying) for index in found]
        if parts[0][0] != parts[1][0] or any(self._var in inside.variables() for _, inside in parts):
            return False
        blocks = [(inside.interval.low, inside.interval.high) for _, inside in parts]
        numbers = {None if end is None else end // abs(step) for ends in blocks for end in ends}
        return len(numbers) == 1 and None not in numbers

    def _is_separate(self, one: _Access, other: _Access) -> bool:
        """Return whether what one iteration touches is never what another one does."""
        if self._is_apart(one.address, other.address) or self._is_in_block(one, other):
            return True
        steps = {abs(factor) for atoms, factor in one.address.terms if atoms and abs(factor) > 1}
        for step in sorted(steps):
            (rows, columns), (other_rows, other_columns) = (_by_step(each, step) for each in (one, other))
            if columns is not None and other_columns is not None:
                # Both are places in rows of so many elements: they are one place where row and column are the same.
                is_apart = self._is_separate(columns, other_columns) if columns.address != one.address else False
                if is_apart or self._is_apart(rows, other_rows):
                    return True
        return False

    def _is_injective(self, address: Index) -> bool:
        """Return whether different iterations have different addresses."""
        bounded = (var for var in address.variables() if var.name.endswith("'"))
        varying = (self._var, *self._inner, *self._named, *bounded)
        if not is_mixed_radix(address, varying):
            return False
        found = address.variables()
        if self._var in found and address.coefficient(self._var) != 0:
            return True
        return any(self._is_injective(self._named[var]) for var in found & self._named.keys())

    def _is_apart(self, address: Index, other: Index) -> bool:
        """Return whether one iteration's ``address`` is never another's ``other``, which differs by a distance."""
        # Nothing else of the constants matters, and the many accesses of an unrolled loop differ in them alone.
        (terms, constant), (other_terms, other_constant) = _by_constant(address), _by_constant(other)
        key = terms, other_terms, other_constant - constant
        if key not in self._apart:
            self._apart[key] = self._is_certainly_apart(address, other)
        return self._apart[key]

    def _is_certainly_apart(self, address: Index, other: Index) -> bool:
        if (address.variables() | other.variables()) & self._named.keys():
            return False
        varying = {self._var, *self._inner}
        digits = self._digits(address, other)
        fixed = (other - address).substituted({var: Index() for var in varying}).constant
        if digits is not None and fixed is not None and not _may_add_up_to(-fixed, digits):
            return True
        step, extent, distance = address.coefficient(self._var), self._var.extent, other - address
        if not step or not isinstance(extent, int) or distance.variables() & varying:
            return False
        if address.variables() & self._inner:
            return False
        reach, bounds = abs(step) * (extent - 1), distance.interval
        return (bounds.low is not None and bounds.low > reach) or (bounds.high is not None and bounds.high < -reach)

    def _digits(self, address: Index, other: Index) -> list[_Digit] | None:
        """Return what the variables of an iteration and another one add to the distance of two addresses of them.

        The longest steps come first. None: a variable has no steps.
        """
        found: list[_Digit] = []
        for var in (address.variables() | other.variables()) & {self._var, *self._inner}:
            steps = address.coefficient(var), other.coefficient(var)
            if None in steps or not isinstance(var.extent, int):
                return None
            most = max(var.extent - 1, 0)
            one, two = (step or 0 for step in steps)
            if one == two:
                found.append(_Digit(abs(one), -most, most, is_parallel=var == self._var))
                continue
            for step, sign in ((one, -1), (two, 1)):
                ends = (0, most) if step * sign > 0 else (-most, 0)
                found += [_Digit(abs(step), *ends)] if step else []
        return sorted(found, key=lambda digit: -digit.step)

    def _collect(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case For(var, _, inner):
                    self._inner.add(var)
                    self._collect(inner)
                case If(tests, inner):
                    outside = self._tests
                    self._tests = (*outside, *tests)
                    self._collect(inner)
                    self._tests = outside
                case Let(_, value) | Fail(value, _):
                    self._read(value)
                case Set(name, value):
                    self._read(value)
                    if name not in self._own:
                        self._scalars.append(name)
                case Lookup():
                    self._look_up(statement)
                case Store(buffer, address, value):
                    self._read(value)
                    self._stores.append(_Access(buffer, address, self._tests))
                case Join(_, pairs):
                    self._collect(pairs)
                case TileLoad(tile, buffer, address, stride, is_transposed):
                    self._loads.append(self._of_tile(tile.tiles, buffer, address, stride, is_transposed))
                case TileStore(buffer, address, stride, tile):
                    self._stores.append(self._of_tile(tile.tiles, buffer, address, stride))
                case _:
                    pass

    def _of_tile(
        self, tiles: Tiles, buffer: Buffer, address: Index, stride: int, is_transposed: bool = False
    ) -> _Access:
        places, *within = places_of_tile(tiles, address, stride, is_transposed)
        self._inner |= set(within)
        return _Access(buffer, places, self._tests, is_joint=0 < self._held <= tiles.threads)

    def _look_up(self, lookup: Lookup) -> None:
        match lookup.value:
            case Value(tree.Input(), (Number(index, _),)):
                self._named[lookup.var] = index
            case _:
                self._inner.add(lookup.var)
                self._read(lookup.value)

    def _read(self, value: Value) -> None:
        loads = [leaf for leaf in value.leaves if isinstance(leaf, Load)]
        self._loads += [_Access(leaf.buffer, leaf.address, (*self._tests, *leaf.guards)) for leaf in loads]
        self._combined |= {leaf.buffer.name for leaf in value.leaves if isinstance(leaf, Across)}


def _by_step(access: _Access, step: int) -> tuple[Index, _Access | None]:
    """Return an address as row and column of rows of so many elements; without column where it may lie outside."""
    terms = ((atoms, factor // step) for atoms, factor in access.address.terms if not atoms or factor % step == 0)
    rows = Index(tuple(term for term in terms if term[1]))
    columns = access.address - rows * step
    is_inside = any(under(columns, tests).is_within(0, step) for tests in (access.tests, ()))
    return rows, replace(access, address=columns) if is_inside else None


def _by_constant(index: Index) -> tuple[tuple[Term, ...], int]:
    """Return the terms with variables, and the constant, whose term is the last."""
    if index.terms and not index.terms[-1][0]:
        return index.terms[:-1], index.terms[-1][1]
    return index.terms, 0


def _split(index: Index, varying: set[Var]) -> tuple[Index, Index]:
    """Return the part of an index that iterations have in common, and the other one."""
    fixed = (term for term in index.terms if term[0] and not _varies(term, varying))
    common = Index(tuple(fixed))
    return common, index - common


def _varies(term: Term, varying: set[Var]) -> bool:
    """Return whether a term differs between iterations, or is one of those that tests bound (`bounds.under`)."""
    return any(var in varying or var.name.endswith("'") for var in Index((term,)).variables())


def _are_apart(a: Index, b: Index) -> bool:
    """Return whether one index is less than the other whatever the variables of both are."""
    x, y = a.interval, b.interval
    if x.high is not None and y.low is not None and x.high < y.low:
        return True
    return y.high is not None and x.low is not None and y.high < x.low
