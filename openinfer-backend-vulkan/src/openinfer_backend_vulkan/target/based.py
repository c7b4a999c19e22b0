"""Loop programs whose buffers begin at places that are known at run time only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Var
from openinfer.loops import Fail, For, If, Let, Load, Lookup, Set, Store, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.loops import Kernel, Leaf, Statement


def base_of(buffer: str) -> str:
    """Return the name of the parameter that says with which element a buffer begins."""
    return f"base_{buffer}"


def with_bases(kernel: Kernel, buffers: Iterable[str]) -> Kernel:
    """Return a loop program that counts the elements of some buffers from a parameter on (`base_of`)."""
    bases = {name: Var(base_of(name)) for name in buffers}
    used = [bases[buffer.name] for buffer in kernel.buffers if buffer.name in bases]
    if not used:
        return kernel
    return replace(kernel, body=_block(kernel.body, bases), parameters=(*kernel.parameters, *used))


def _block(body: Sequence[Statement], bases: Mapping[str, Var]) -> tuple[Statement, ...]:
    return tuple(_statement(statement, bases) for statement in body)


def _statement(statement: Statement, bases: Mapping[str, Var]) -> Statement:
    match statement:
        case For(var, bind, body):
            return For(var, bind, _block(body, bases))
        case If(tests, body):
            return If(tests, _block(body, bases))
        case Let(name, value):
            return Let(name, _value(value, bases))
        case Set(name, value):
            return Set(name, _value(value, bases))
        case Lookup(var, value):
            return Lookup(var, _value(value, bases))
        case Fail(refused, rule):
            return Fail(_value(refused, bases), rule)
        case Store(buffer, address, value):
            at = address + bases[buffer.name] if buffer.name in bases else address
            return Store(buffer, at, _value(value, bases))
        case _:
            return statement


def _value(value: Value, bases: Mapping[str, Var]) -> Value:
    return Value(value.expr, tuple(_leaf(leaf, bases) for leaf in value.leaves))


def _leaf(leaf: Leaf, bases: Mapping[str, Var]) -> Leaf:
    match leaf:
        case Load(buffer, address, guards, fill) if buffer.name in bases:
            return Load(buffer, address + bases[buffer.name], guards, fill)
        case _:
            return leaf
