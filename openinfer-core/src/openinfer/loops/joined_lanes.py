"""Totals from outside of a loop over lanes to which all lanes are added, as one instruction does with products."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops.nodes import If, Let, Register, Set, Store, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops.nodes import Statement


def joined_lanes(body: Sequence[Statement]) -> frozenset[str]:
    """Return the integers from outside of a loop over lanes to which all lanes are added, and that nothing else uses.

    The order of the lanes is free, since integers wrap.
    """
    sums = Counter(s.name for s in body if isinstance(s, Set) and joined_term(s.value, s.name) is not None)
    uses = Counter(_uses(body))
    inside = {statement.name for statement in body if isinstance(statement, Let)}
    return frozenset(name for name, count in sums.items() if uses[name] == 2 * count) - inside


def joined_term(value: Value, name: str) -> Value | None:
    """Return what a value adds to a register of integers; None for any other value."""
    match value.expr:
        case tree.Apply("add", (first, second), dtype) if dtype.is_integer:
            for total, term in ((first, second), (second, first)):
                if not isinstance(total, tree.Input) or total.index in linearise(term).inputs:
                    continue
                if value.leaves[total.index] == Register(name, dtype):
                    return Value(term, value.leaves)
        case _:
            pass
    return None


def _uses(body: Sequence[Statement]) -> Iterator[str]:
    """Yield the registers that statements read and set, as often as they do."""
    for statement in body:
        match statement:
            case If(_, inner):
                yield from _uses(inner)
            case Set(name, value):
                yield name
                yield from _read(value)
            case Let(_, value) | Store(_, _, value):
                yield from _read(value)
            case _:
                pass


def _read(value: Value) -> Iterator[str]:
    yield from (leaf.name for leaf in value.leaves if isinstance(leaf, Register))
