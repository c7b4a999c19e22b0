"""Elements that a loop reads again and again, read once before it: compilers of shaders do not move such reads."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.loops import Bind, For, If, Let, Load, Lookup, Memory, Register, Set, Store, Value, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops import Kernel, Statement


def with_invariant_loads(kernel: Kernel) -> Kernel:
    """Return a loop program in which serial loops read no element of global memory that is the same in all iterations.

    Elements that the loop may not reach, under a test or in a loop of a size that is known at run time only, stay.
    """
    names = map("held{}".format, count())
    return replace(kernel, body=_block(kernel.body, names))


def _block(body: Sequence[Statement], names: Iterator[str]) -> tuple[Statement, ...]:
    made: list[Statement] = []
    for statement in body:
        match statement:
            case For(var, Bind.SERIAL, inside) if _is_entered(var):
                bound, stored = _bound(statement), _stored(inside)
                held = {
                    load: Register(next(names), load.dtype)
                    for load in dict.fromkeys(_surely_read(inside))
                    if load.buffer.memory is Memory.GLOBAL
                    and load.buffer.name not in stored
                    and load.address.variables().isdisjoint(bound)
                }
                for load, register in held.items():
                    made.append(Let(register.name, value_of(tree.Input(0, load.dtype), {0: load})))
                made.append(_replaced(statement, held))
            case For(var, bind, inside):
                made.append(For(var, bind, _block(inside, names)))
            case If(tests, inside):
                made.append(If(tests, _block(inside, names)))
            case _:
                made.append(statement)
    return tuple(made)


def _is_entered(var: Var) -> bool:
    return isinstance(var.extent, int) and var.extent > 0


def _surely_read(body: Sequence[Statement]) -> Iterator[Load]:
    for statement in body:
        match statement:
            case For(var, _, inside) if _is_entered(var):
                yield from _surely_read(inside)
            case Let(_, value) | Set(_, value) | Store(_, _, value) | Lookup(_, value):
                yield from (leaf for leaf in value.leaves if isinstance(leaf, Load) and leaf.fill is None)
            case _:
                pass


def _bound(statement: Statement) -> set[Var]:
    """Return the variables that a statement gives values to."""
    match statement:
        case For(var, _, inside):
            return {var, *(inner for child in inside for inner in _bound(child))}
        case If(_, inside):
            return {var for child in inside for var in _bound(child)}
        case Lookup(var, _):
            return {var}
        case _:
            return set()


def _stored(body: Sequence[Statement]) -> set[str]:
    """Return the names of the buffers that statements write."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case For(_, _, inside) | If(_, inside):
                names |= _stored(inside)
            case Store(buffer, _, _):
                names.add(buffer.name)
            case _:
                pass
    return names


def _replaced(statement: Statement, held: dict[Load, Register]) -> Statement:
    """Return a statement that uses registers for some elements."""

    def of(value: Value) -> Value:
        leaves = tuple(held.get(leaf, leaf) if isinstance(leaf, Load) else leaf for leaf in value.leaves)
        return Value(value.expr, leaves)

    match statement:
        case For(var, bind, inside):
            return For(var, bind, tuple(_replaced(child, held) for child in inside))
        case If(tests, inside):
            return If(tests, tuple(_replaced(child, held) for child in inside))
        case Let(name, value):
            return Let(name, of(value))
        case Set(name, value):
            return Set(name, of(value))
        case Store(buffer, address, value):
            return Store(buffer, address, of(value))
        case Lookup(var, value):
            return Lookup(var, of(value))
        case _:
            return statement
