"""Loop programs on memory in the middle of a buffer, whose place is known at run time only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops.nodes import Fail, For, If, Let, Load, Lookup, Prefetch, Set, Store, Value
from openinfer.loops.tiles import TileLoad, TileStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.loops.nodes import Kernel, Leaf, Statement


def displaced(kernel: Kernel, starts: Mapping[str, Var]) -> Kernel:
    """Return a loop program whose buffers of some names begin at the element that a parameter says.

    The parameters come after those of the program, in the order of ``starts``; those of other buffers are left out.
    """
    names = {buffer.name for buffer in kernel.buffers}
    used = {name: start for name, start in starts.items() if name in names}
    if not used:
        return kernel
    body = _block(kernel.body, used)
    return replace(kernel, body=body, parameters=(*kernel.parameters, *used.values()))


def _block(body: Sequence[Statement], starts: Mapping[str, Var]) -> tuple[Statement, ...]:
    return tuple(_statement(each, starts) for each in body)


def _statement(statement: Statement, starts: Mapping[str, Var]) -> Statement:
    match statement:
        case For(var, bind, body):
            return For(var, bind, _block(body, starts))
        case If(tests, body):
            return If(tests, _block(body, starts))
        case Let(name, value):
            return Let(name, _value(value, starts))
        case Set(name, value):
            return Set(name, _value(value, starts))
        case Lookup(var, value):
            return Lookup(var, _value(value, starts))
        case Fail(refused, rule):
            return Fail(_value(refused, starts), rule)
        case Store(buffer, address, value):
            return Store(buffer, address + starts.get(buffer.name, Index()), _value(value, starts))
        case TileLoad(_, buffer, address) | TileStore(buffer, address) | Prefetch(buffer, address):
            return replace(statement, address=address + starts.get(buffer.name, Index()))
        case _:
            return statement


def _value(value: Value, starts: Mapping[str, Var]) -> Value:
    return Value(value.expr, tuple(_leaf(leaf, starts) for leaf in value.leaves))


def _leaf(leaf: Leaf, starts: Mapping[str, Var]) -> Leaf:
    if isinstance(leaf, Load):
        return replace(leaf, address=leaf.address + starts.get(leaf.buffer.name, Index()))
    return leaf
