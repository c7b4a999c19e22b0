"""Named scalars, indices and buffers of a kernel's own that nothing uses: they and what sets them are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.loops.buffers import Buffer, Memory
from openinfer.loops.nodes import Across, Alloc, For, If, Join, Let, Load, Lookup, Peer, Register, Set, Store
from openinfer.loops.substitution import indices_of, values_of
from openinfer.loops.tiles import TileLoad, TileStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.loops.nodes import Kernel, Statement


def without_unread(kernel: Kernel) -> Kernel:
    """Return a loop program whose named scalars, looked up indices, private and shared buffers are all used.

    A name that only its own next value depends on is unused, such as a total that no result needs. A `Fail` stays.
    """
    used: set[str] = set()
    count = -1
    # A loop carries values back to its start: what is used there may need what was passed already.
    while len(used) > count:
        count = len(used)
        _mark(kernel.body, used)
    return replace(kernel, body=_kept(kernel.body, used))


def _mark(body: Sequence[Statement], used: set[str]) -> bool:
    """Add the names that statements use which have an effect or set a used name; return whether there are any."""
    is_kept = False
    for statement in reversed(body):
        match statement:
            case For(_, _, inner) | If(_, inner):
                read: Sequence[Statement] = (replace(statement, body=()),) if _mark(inner, used) else ()
            case Join(_, pairs):
                read = [pair for pair in pairs if pair.name in used]
            case _:
                read = (statement,) if _is_used(statement, used) else ()
        used.update(_names(read))
        is_kept = is_kept or bool(read)
    return is_kept


def _names(statements: Sequence[Statement]) -> Iterator[str]:
    """Yield what statements read. One name of an index and a scalar keeps both, which is of no harm."""
    yield from (var.name for index in indices_of(statements) for var in index.variables())
    yield from (statement.buffer.name for statement in statements if isinstance(statement, TileLoad | TileStore))
    for value in values_of(statements):
        for leaf in value.leaves:
            match leaf:
                case Register(name, _) | Peer(name, _):
                    yield name
                case Load(buffer, _, _, _) | Across(_, buffer):
                    yield buffer.name
                case _:
                    pass


def _is_used(statement: Statement, used: set[str]) -> bool:
    """Return whether a statement has an effect outside of its kernel, or sets something that is used."""
    match statement:
        case Let(name, _) | Set(name, _):
            return name in used
        case Lookup(var, _):
            return var.name in used
        case Alloc(buffer) | Store(Buffer(memory=Memory.PRIVATE | Memory.SHARED) as buffer, _, _):
            return buffer.name in used
        case _:
            return True


def _kept(body: Sequence[Statement], used: set[str]) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    for statement in body:
        match statement:
            case For() | If():
                inner = _kept(statement.body, used)
                if inner:
                    kept.append(statement if inner == statement.body else replace(statement, body=inner))
            case Join(_, pairs):
                needed = tuple(pair for pair in pairs if pair.name in used)
                if needed:
                    kept.append(statement if needed == pairs else replace(statement, pairs=needed))
            case _:
                if _is_used(statement, used):
                    kept.append(statement)
    return tuple(kept)
