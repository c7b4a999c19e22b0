"""Named scalars that nothing reads: they and what sets them are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.loops.nodes import Fail, For, If, Kernel, Let, Lookup, Register, Set, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops.nodes import Statement, Value


def without_unread(kernel: Kernel) -> Kernel:
    """Return a loop program whose named scalars are all read; what one alone has read may then go too."""
    body = kernel.body
    while True:
        read = {leaf.name for value in _values(body) for leaf in value.leaves if isinstance(leaf, Register)}
        kept = _kept(body, read)
        if kept == body:
            return replace(kernel, body=body)
        body = kept


def _values(body: Sequence[Statement]) -> Iterator[Value]:
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from _values(inner)
            case Let(_, value) | Set(_, value) | Lookup(_, value) | Fail(value, _) | Store(_, _, value):
                yield value
            case _:
                pass


def _kept(body: Sequence[Statement], read: set[str]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in body:
        match statement:
            case For() | If():
                inner = _kept(statement.body, read)
                if inner:
                    found.append(statement if inner == statement.body else replace(statement, body=inner))
            case Let(name, _) | Set(name, _):
                if name in read:
                    found.append(statement)
            case _:
                found.append(statement)
    return tuple(found)
