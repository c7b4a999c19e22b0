"""Loop fusion: adjacent loops that compute different results from the same elements become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops.nodes import Bind, Fail, For, If, Let, Load, Lookup, Set, Store
from openinfer.loops.substitution import substituted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Interval
    from openinfer.loops.buffers import Buffer
    from openinfer.loops.nodes import Kernel, Statement, Value


def fused(kernel: Kernel) -> Kernel:
    """Return a loop program in which adjacent serial loops are one where that cannot be observed.

    They have one extent, neither touches what the other writes, and both load some element at the same address: what
    they compute from it is shared, such as an angle whose sine and cosine are stored.
    """
    return replace(kernel, body=_block(kernel.body))


def _block(body: Sequence[Statement]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in body:
        joined = _joined(found[-1], statement) if found else None
        if joined is None:
            found.append(statement)
        else:
            found[-1] = joined
    return tuple(replace(each, body=_block(each.body)) if isinstance(each, For) else each for each in found)


def _joined(first: Statement, second: Statement) -> For | None:
    match first, second:
        case For(var, Bind.SERIAL, body), For(other, Bind.SERIAL, following) if var.extent == other.extent:
            if var.name in _bound(following):
                return None
            renamed = substituted(following, {other: Index.of(var)})
            left, right = (_touched(each, {var}) for each in (body, renamed))
            if left.loads & right.loads and left.is_apart_from(right):
                return For(var, Bind.SERIAL, (*body, *renamed))
        case _:
            pass
    return None


def _bound(body: Sequence[Statement]) -> Iterator[str]:
    """Yield the names of the variables of loops and of computed indices."""
    for statement in body:
        if isinstance(statement, For | Lookup):
            yield statement.var.name
        if isinstance(statement, For | If):
            yield from _bound(statement.body)


@dataclass(frozen=True, slots=True)
class _Touched:
    """What some statements load and store, and the variables that change meanwhile.

    Those of loops within are named by their depth, so that equal addresses compare equal.
    """

    variables: set[Var]
    loads: set[tuple[Buffer, Index]]
    stores: set[tuple[Buffer, Index]]

    def is_apart_from(self, other: _Touched) -> bool:
        """Whether neither touches what the other stores, whichever iterations are compared."""
        later = {var: Index.of(replace(var, name=f"{var.name}'")) for var in other.variables}
        for mine, theirs in ((self.stores, other.loads | other.stores), (self.loads, other.stores)):
            addresses: dict[Buffer, list[Index]] = {}
            for buffer, address in mine:
                addresses.setdefault(buffer, []).append(address)
            for buffer, address in theirs:
                if buffer not in addresses:
                    continue
                moved = address.substituted(later)
                if not all(_never_zero(each - moved) for each in addresses[buffer]):
                    return False
        return True


def _never_zero(index: Index) -> bool:
    """Whether an index is certainly not 0: its interval excludes 0, or the terms that a common factor of the others
    does not divide lie between two multiples of that factor."""
    factors = {abs(factor) for atoms, factor in index.terms if atoms}
    rests = ((factor, Index(tuple(term for term in index.terms if term[1] % factor))) for factor in factors)
    return _is_between(index.interval, 0) or any(_is_between(rest.interval, factor) for factor, rest in rests)


def _is_between(interval: Interval, multiple: int) -> bool:
    """Whether an interval holds no multiple of a number; of 0 there is one."""
    low, high = interval.low, interval.high
    if not multiple or low is None or high is None:
        return (low is not None and low > 0) or (high is not None and high < 0)
    return low % multiple != 0 and low // multiple == high // multiple


def _touched(body: Sequence[Statement], variables: set[Var], depth: int = 0) -> _Touched:
    found = _Touched(set(variables), set(), set())
    for statement in body:
        match statement:
            case For(var, _, inner):
                counter = Var(f"depth{depth}'", var.extent)
                _add(found, _touched(substituted(inner, {var: Index.of(counter)}), {counter}, depth + 1))
            case If(_, inner):
                _add(found, _touched(inner, set(), depth))
            case Store(buffer, address, value):
                found.stores.add((buffer, address))
                found.loads.update(_loads(value))
            case Lookup(var, value):
                found.variables.add(var)
                found.loads.update(_loads(value))
            case Let(_, value) | Set(_, value) | Fail(value, _):
                found.loads.update(_loads(value))
            case _:
                pass
    return found


def _add(found: _Touched, inner: _Touched) -> None:
    found.variables.update(inner.variables)
    found.loads.update(inner.loads)
    found.stores.update(inner.stores)


def _loads(value: Value) -> Iterator[tuple[Buffer, Index]]:
    return ((leaf.buffer, leaf.address) for leaf in value.leaves if isinstance(leaf, Load))
