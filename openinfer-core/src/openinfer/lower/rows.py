"""Long sums by a group of threads each: partial totals in shared memory, which are added up as a tree."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.compute import Order
from openinfer.expr import tree
from openinfer.loops import (
    Alloc,
    Bind,
    Buffer,
    Fail,
    For,
    If,
    Let,
    Load,
    Lookup,
    Memory,
    Register,
    Set,
    Store,
    value_of,
)
from openinfer.loops.substitution import substituted
from openinfer.lower.perfect_nests import chain_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.compute import Fold
    from openinfer.loops import Kernel, Statement, Value

SHORTEST = 256
"""Fewest terms of a sum that a group works on."""

MOST_PLACES = 1 << 16
"""Results from which on a thread for each keeps a device busy, where a sum reads several tensors."""

THREADS = 128
"""Threads of a group: as many as every device has."""


def in_rows(kernel: Kernel, fold: Fold) -> Kernel | None:
    """Return a loop program, whose outer loops are over groups, with a group of threads for each sum.

    None where that gains nothing or is not allowed: the order of the sum is fixed, it is short, what it reads does not
    lie in a row, or elements are refused.
    """
    axes, body = chain_of(kernel.body, Bind.GROUP)
    match body:
        case [Let(name) as total, For(Var(extent=int(extent)) as var, Bind.SERIAL, inside), *behind]:
            pass
        case _:
            return None
    if not _is_free_sum(fold) or extent < SHORTEST or any(isinstance(each, Fail | Lookup) for each in inside):
        return None
    if not _is_in_a_row(var, [*_loads(inside)], prod(axis.extent for axis in axes if isinstance(axis.extent, int))):
        return None
    dtype = total.value.dtype
    part = Buffer(f"part_{name}", dtype, Index.of(THREADS), Memory.SHARED)
    thread, step = Var(f"thread_{name}", THREADS), Var(f"step_{name}", -(-extent // THREADS))
    place = step * THREADS + thread
    visited = If((Within(place, Index.of(extent)),), substituted(inside, {var: place}))
    partial = (total, For(step, Bind.SERIAL, (visited,)), Store(part, Index.of(thread), _total(total)))
    first = Let(name, value_of(tree.Input(0, dtype), {0: Load(part, Index())}))
    steps: tuple[Statement, ...] = (
        Alloc(part),
        For(thread, Bind.LOCAL, partial),
        *_tree(part, name),
        For(Var(f"last_{name}", 1), Bind.LOCAL, (first, *behind)),
    )
    for axis in reversed(axes):
        steps = (For(axis, Bind.GROUP, steps),)
    return replace(kernel, body=steps)


def _is_free_sum(fold: Fold) -> bool:
    match fold.totals:
        case [total] if fold.order is Order.ANY and not fold.running:
            pass
        case _:
            return False
    match total.combine, total.start:
        case tree.Apply("add", (tree.Input(-1, total_type), tree.Input(-2, term_type))), tree.Literal(value=value):
            return total_type is term_type and value == 0
        case _:
            return False


def _is_in_a_row(var: Var, loads: Sequence[Load], places: int) -> bool:
    steps = [load.address.coefficient(var) for load in loads]
    along = [step for step in steps if step != 0]
    return bool(along) and all(step == 1 for step in along) and (len(along) == 1 or places <= MOST_PLACES)


def _loads(body: Sequence[Statement]) -> Iterator[Load]:
    for statement in body:
        if isinstance(statement, Let | Set):
            yield from (leaf for leaf in statement.value.leaves if isinstance(leaf, Load))


def _total(total: Let) -> Value:
    dtype = total.value.dtype
    return value_of(tree.Input(0, dtype), {0: Register(total.name, dtype)})


def _tree(part: Buffer, name: str) -> Iterator[Statement]:
    """Yield loops over threads that add the later half of what is left to the earlier one."""
    half = THREADS // 2
    while half:
        thread = Var(f"half{half}_{name}", half)
        added = tree.add(tree.Input(0, part.dtype), tree.Input(1, part.dtype))
        pair = {0: Load(part, Index.of(thread)), 1: Load(part, thread + half)}
        yield For(thread, Bind.LOCAL, (Store(part, Index.of(thread), value_of(added, pair)),))
        half //= 2
