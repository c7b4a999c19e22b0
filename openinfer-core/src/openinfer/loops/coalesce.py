"""Fewer loops: those of one iteration are written out, nested ones become one where every index steps evenly on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.loops.nodes import Bind, Fail, For, If, Let, Load, Lookup, Number, Set, Store, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.loops.nodes import Kernel, Leaf, Statement


def coalesced(kernel: Kernel) -> Kernel:
    """Return a loop program that does the same in the same order with fewer loops."""
    return replace(kernel, body=_block(kernel.body))


def _block(body: Sequence[Statement]) -> tuple[Statement, ...]:
    return tuple(each for statement in body for each in _statement(statement))


def _statement(statement: Statement) -> tuple[Statement, ...]:
    match statement:
        case For(var, _, body) if var.extent == 1:
            return _block(_substituted(body, {var: Index()}))
        case For(var, bind, body):
            inner = _block(body)
            merged = _merged(var, inner[0]) if bind is Bind.SERIAL and len(inner) == 1 else None
            return (merged or For(var, bind, inner),)
        case If(tests, body):
            return (If(tests, _block(body)),)
        case _:
            return (statement,)


def _merged(outer: Var, inner: Statement) -> For | None:
    """Return one loop for a loop around another, whose indices use both variables as one number with two digits."""
    match inner:
        case For(Var(extent=int(count)) as var, Bind.SERIAL, body) if isinstance(outer.extent, int):
            pairs = [(index.coefficient(outer), index.coefficient(var)) for index in _indices(body)]
            if any(low is None or high is None or high != low * count for high, low in pairs):
                return None
            both = Var(outer.name, outer.extent * count)
            # The outer digit goes, the inner one counts on: coefficients of the inner one are those of both.
            return For(both, Bind.SERIAL, _substituted(body, {outer: Index(), var: Index.of(both)}))
        case _:
            return None


def _indices(body: Sequence[Statement]) -> Iterator[Index]:
    """Yield every index of some statements."""
    found: list[Index] = []

    def note(index: Index) -> Index:
        found.append(index)
        return index

    for statement in body:
        _rewritten(statement, note)
    yield from found


def _substituted(body: Sequence[Statement], values: Mapping[Var, Index]) -> tuple[Statement, ...]:
    return tuple(_rewritten(statement, lambda index: index.substituted(values)) for statement in body)


def _rewritten(statement: Statement, change: Callable[[Index], Index]) -> Statement:
    """Return a statement with every index changed."""
    match statement:
        case For(var, bind, body):
            extent = change(var.extent) if isinstance(var.extent, Index) else var.extent
            return For(replace(var, extent=extent), bind, tuple(_rewritten(each, change) for each in body))
        case If(tests, body):
            return If(_tests(tests, change), tuple(_rewritten(each, change) for each in body))
        case Let(name, value):
            return Let(name, _value(value, change))
        case Set(name, value):
            return Set(name, _value(value, change))
        case Lookup(var, value):
            return Lookup(var, _value(value, change))
        case Fail(refused, rule):
            return Fail(_value(refused, change), rule)
        case Store(buffer, address, value):
            return Store(buffer, change(address), _value(value, change))
        case _:
            return statement


def _tests(tests: Sequence[Within], change: Callable[[Index], Index]) -> tuple[Within, ...]:
    return tuple(Within(change(test.index), change(test.extent)) for test in tests)


def _value(value: Value, change: Callable[[Index], Index]) -> Value:
    return Value(value.expr, tuple(_leaf(leaf, change) for leaf in value.leaves))


def _leaf(leaf: Leaf, change: Callable[[Index], Index]) -> Leaf:
    match leaf:
        case Load(buffer, address, guards, fill):
            return Load(buffer, change(address), _tests(guards, change), fill)
        case Number(index, dtype):
            return Number(change(index), dtype)
        case _:
            return leaf
