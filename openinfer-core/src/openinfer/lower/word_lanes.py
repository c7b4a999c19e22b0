"""Places that are neighbours in memory, several a thread: what it loads and stores of each tensor is 16 bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.loops import Bind, For, If, Let, Load, Memory, Store
from openinfer.loops.substitution import substituted, values_of
from openinfer.lower.nests import nest
from openinfer.lower.perfect_nests import chain_of
from openinfer.schedule.threads import WORD_NBYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops import Buffer, Kernel, Statement


def in_words(kernel: Kernel) -> Kernel | None:
    """Return a loop program, whose outer loops are over groups, in which each iteration has several neighbours.

    None: it is more than an expression of elements that lie next to one another, or they do not begin at whole words.
    Along a single axis what is left over has an iteration of its own.
    """
    axes, body = chain_of(kernel.body, Bind.GROUP)
    if not axes or not all(isinstance(statement, Let | Store) for statement in body):
        return None
    *outer, axis = axes
    touched = list(_touched(body))
    along = [(buffer, address) for buffer, address in touched if address.coefficient(axis) == 1]
    stores = [statement for statement in body if isinstance(statement, Store)]
    is_regular = all(address.coefficient(axis) in (0, 1) for _, address in touched)
    if not is_regular or any(store.address.coefficient(axis) != 1 for store in stores):
        return None
    if not along:
        return None
    lanes = WORD_NBYTES * 8 // max(max(buffer.dtype.bits for buffer, _ in along), 8)
    steps = [factor for _, address in along for atoms, factor in address.terms if atoms != (axis,)]
    if not isinstance(axis.extent, int) or axis.extent < lanes or any(step % lanes for step in steps):
        return None
    whole, rest = divmod(axis.extent, lanes)
    if rest and outer:
        return None
    names = {kernel.name, *(buffer.name for buffer in kernel.buffers), *(other.name for other in outer)}
    group = Var(axis.name, whole + bool(rest))
    lane = Var(_new(f"{axis.name}_lane", names), lanes)
    made: tuple[Statement, ...] = (For(lane, Bind.UNROLL, _at(body, axis, group * lanes + lane)),)
    if rest:
        left = Var(_new(f"{axis.name}_left", names), rest)
        after = nest([left], _at(body, axis, group * lanes + left))
        is_last = Within(Index.of(group) - whole, Index.of(1))
        made = (If((Within(Index.of(group), Index.of(whole)),), made), If((is_last,), after))
    for var in reversed([*outer, group]):
        made = (For(var, Bind.GROUP, made),)
    return replace(kernel, body=made)


def _touched(body: Sequence[Statement]) -> Iterator[tuple[Buffer, Index]]:
    """Yield the elements in memory that statements certainly access."""
    for statement in body:
        if isinstance(statement, Store):
            yield statement.buffer, statement.address
    for value in values_of(body):
        for leaf in value.leaves:
            if isinstance(leaf, Load) and leaf.buffer.memory is Memory.GLOBAL:
                yield leaf.buffer, leaf.address


def _at(body: Sequence[Statement], axis: Var, value: Index) -> tuple[Statement, ...]:
    return substituted(body, {axis: value})


def _new(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
