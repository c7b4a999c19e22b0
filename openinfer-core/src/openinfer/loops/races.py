"""Whether iterations of a parallel loop touch one element, of which at least one writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within, is_mixed_radix
from openinfer.loops.nodes import Across, Alloc, Barrier, Bind, Fail, For, If, Join, Let, Load, Lookup, Set, Store
from openinfer.loops.teams import phases, team

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops.nodes import Buffer, Statement, Value


def find_race(var: Var, bind: Bind, body: Sequence[Statement]) -> str | None:
    """Return how iterations of a parallel loop over ``var`` may disturb one another, None where they never do.

    What one iteration writes outside of itself no other may write or read. That is certain where the address of a
    store is a mixed-radix number of ``var`` and the variables within, and other accesses have the same address, or one
    that differs from it by a distance that no two iterations have. A store under ``0 <= var < 1`` is one iteration's.
    Barriers part the accesses of the threads of a group; groups do not wait for one another.
    """
    if var.extent in (0, 1):
        return None
    others: Sequence[Var] = ()
    parts: Sequence[Sequence[Statement]] = [body]
    if bind is Bind.LOCAL:
        (_, *others), body = team(For(var, bind, tuple(body)))
        parts = phases(body)
    own = set(_named(body))
    for part in parts:
        found = _Accesses(var, others, own, part).race()
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
class _Digit:
    """A variable of an address: its step, its greatest value, and whether it is that of the parallel loop."""

    step: int
    most: int
    is_parallel: bool


def _may_differ_by(distance: int, digits: Sequence[_Digit]) -> bool:
    """Return whether addresses of different iterations may differ by this, their digits being sorted by steps.

    Of a mixed-radix number few values of each digit leave a distance that the shorter ones reach.
    """
    if not digits:
        return not distance
    first, *others = digits
    reach = sum(digit.step * digit.most for digit in others)
    low = max(-first.most, -((reach - distance) // first.step))
    high = min(first.most, (distance + reach) // first.step)
    return any(
        _may_differ_by(distance - first.step * value, others)
        for value in range(low, high + 1)
        if value or not first.is_parallel
    )


class _Accesses:
    """What the statements of one iteration touch outside of it, and whether only the first iteration does."""

    def __init__(self, var: Var, others: Sequence[Var], own: set[str], body: Sequence[Statement]) -> None:
        self._var = var
        self._own = own
        self._inner: set[Var] = set(others)
        self._stores: list[tuple[Buffer, Index, bool]] = []
        self._loads: list[tuple[Buffer, Index, bool]] = []
        self._is_first = False
        self._combined: set[str] = set()
        self._scalars: list[str] = []
        self._collect(body)

    def race(self) -> str | None:
        if self._scalars:
            return f"set one scalar, {self._scalars[0]}"
        for buffer, address, is_first in self._stores:
            if buffer.name in self._own:
                continue
            if not is_first and not self._is_injective(address):
                return f"may write one element, {buffer.name}[{address}]"
            if buffer.name in self._combined:
                return f"write {buffer.name}, whose elements are combined"
            for other, place, is_of_first in (*self._stores, *self._loads):
                if other != buffer or (is_first and is_of_first) or _are_apart(place, address):
                    continue
                if place == address and not is_first:
                    continue
                if is_first or not self._is_apart(address, place):
                    return f"write {buffer.name}[{address}] and use {buffer.name}[{place}]"
        return None

    def _is_injective(self, address: Index) -> bool:
        """Return whether different iterations have different addresses."""
        is_stepping = address.coefficient(self._var) != 0 and self._var in address.variables()
        return bool(is_mixed_radix(address, (self._var, *self._inner)) and is_stepping)

    def _is_apart(self, address: Index, other: Index) -> bool:
        """Return whether one iteration's ``address`` is never another's ``other``, which differs by a distance."""
        step, extent = address.coefficient(self._var), self._var.extent
        distance = other - address
        varying = {self._var, *self._inner}
        if not step or not isinstance(extent, int) or distance.variables() & varying:
            return False
        digits = self._digits(address)
        if distance.constant is not None and digits is not None and not _may_differ_by(distance.constant, digits):
            return True
        if address.variables() & self._inner:
            return False
        reach, bounds = abs(step) * (extent - 1), distance.interval
        return (bounds.low is not None and bounds.low > reach) or (bounds.high is not None and bounds.high < -reach)

    def _digits(self, address: Index) -> list[_Digit] | None:
        """Return the variables of an address within an iteration, longest steps first; None if one has no steps."""
        found: list[_Digit] = []
        for var in address.variables() & {self._var, *self._inner}:
            step = address.coefficient(var)
            if step is None or not isinstance(var.extent, int):
                return None
            found.append(_Digit(abs(step), max(var.extent - 1, 0), is_parallel=var == self._var))
        return sorted(found, key=lambda digit: -digit.step)

    def _collect(self, body: Sequence[Statement]) -> None:
        for statement in body:
            match statement:
                case For(var, _, inner):
                    self._inner.add(var)
                    self._collect(inner)
                case If(tests, inner):
                    outside = self._is_first
                    self._is_first |= Within(Index.of(self._var), Index.of(1)) in tests
                    self._collect(inner)
                    self._is_first = outside
                case Let(_, value):
                    self._read(value)
                case Set(name, value):
                    self._read(value)
                    if name not in self._own:
                        self._scalars.append(name)
                case Lookup(var, value):
                    self._inner.add(var)
                    self._read(value)
                case Fail(value, _):
                    self._read(value)
                case Store(buffer, address, value):
                    self._read(value)
                    self._stores.append((buffer, address, self._is_first))
                case Join(_, pairs):
                    self._collect(pairs)
                case Alloc() | Barrier():
                    pass

    def _read(self, value: Value) -> None:
        loads = [leaf for leaf in value.leaves if isinstance(leaf, Load)]
        self._loads += [(leaf.buffer, leaf.address, self._is_first) for leaf in loads]
        self._combined |= {leaf.buffer.name for leaf in value.leaves if isinstance(leaf, Across)}


def _are_apart(a: Index, b: Index) -> bool:
    """Return whether one index is less than the other whatever the variables of both are."""
    x, y = a.interval, b.interval
    if x.high is not None and y.low is not None and x.high < y.low:
        return True
    return y.high is not None and x.low is not None and y.high < x.low
