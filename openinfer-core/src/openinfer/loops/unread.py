"""Named scalars and indices that nothing uses: they and what sets them are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.loops.nodes import For, If, Kernel, Let, Lookup, Register, Set
from openinfer.loops.substitution import indices_of, values_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.loops.nodes import Statement


def without_unread(kernel: Kernel) -> Kernel:
    """Return a loop program whose named scalars and looked up indices are all used.

    What one alone has read may then go too; a `Fail` stays.
    """
    body = kernel.body
    while True:
        read = {leaf.name for value in values_of(body) for leaf in value.leaves if isinstance(leaf, Register)}
        used = {var.name for index in indices_of(body) for var in index.variables()}
        kept = _kept(body, read, used)
        if kept == body:
            return replace(kernel, body=body)
        body = kept


def _kept(body: Sequence[Statement], read: set[str], used: set[str]) -> tuple[Statement, ...]:
    found: list[Statement] = []
    for statement in body:
        match statement:
            case For() | If():
                inner = _kept(statement.body, read, used)
                if inner:
                    found.append(statement if inner == statement.body else replace(statement, body=inner))
            case Let(name, _) | Set(name, _):
                if name in read:
                    found.append(statement)
            case Lookup(var, _):
                if var.name in used:
                    found.append(statement)
            case _:
                found.append(statement)
    return tuple(found)
