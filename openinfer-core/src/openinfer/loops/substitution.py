"""Changing the indices of statements."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.loops.nodes import Fail, For, If, Join, Let, Load, Lookup, Number, Prefetch, Set, Store, Value
from openinfer.loops.tiles import Tile, TileFill, TileFma, TileLoad, TileStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.loops.nodes import Bind, Leaf, Statement


def indices_of(body: Sequence[Statement]) -> Iterator[Index]:
    """Yield every index of some statements."""
    for statement in body:
        match statement:
            case For(var, _, inner):
                if isinstance(var.extent, Index):
                    yield var.extent
                yield from indices_of(inner)
            case If(tests, inner):
                yield from _in_tests(tests)
                yield from indices_of(inner)
            case Store(_, address, value):
                yield address
                yield from _in_value(value)
            case Let(_, value) | Set(_, value) | Lookup(_, value) | Fail(value, _):
                yield from _in_value(value)
            case Prefetch(_, address):
                yield address
            case TileFill(tile, _):
                yield tile.at
            case TileLoad(tile, _, address, _, _) | TileStore(_, address, _, tile):
                yield tile.at
                yield address
            case TileFma(total, left, right):
                yield from (total.at, left.at, right.at)
            case _:
                pass


def _in_tests(tests: Sequence[Within]) -> Iterator[Index]:
    for test in tests:
        yield test.index
        yield test.extent


def _in_value(value: Value) -> Iterator[Index]:
    for leaf in value.leaves:
        match leaf:
            case Load(_, address, guards, _):
                yield address
                yield from _in_tests(guards)
            case Number(index, _):
                yield index
            case _:
                pass


def values_of(body: Sequence[Statement]) -> Iterator[Value]:
    """Yield every value that statements compute."""
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                yield from values_of(inner)
            case Join(_, pairs):
                yield from values_of(pairs)
            case Let(_, value) | Set(_, value) | Lookup(_, value) | Store(_, _, value) | Fail(value, _):
                yield value
            case _:
                pass


def substituted(body: Sequence[Statement], values: Mapping[Var, Index]) -> tuple[Statement, ...]:
    """Return statements with variables replaced by indices."""
    return rewritten(body, lambda index: index.substituted(values))


def rewritten(body: Sequence[Statement], change: Callable[[Index], Index]) -> tuple[Statement, ...]:
    """Return statements with every index changed to one of the same value."""
    return tuple(_rewritten(statement, change) for statement in body)


def _rewritten(statement: Statement, change: Callable[[Index], Index]) -> Statement:
    """Return a statement with every index changed."""
    match statement:
        case For(Var(extent=Index() as extent) as var, bind, body):
            return _resized(var, change(extent), bind, tuple(_rewritten(each, change) for each in body))
        case For(var, bind, body):
            return For(var, bind, tuple(_rewritten(each, change) for each in body))
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
        case Prefetch(buffer, address):
            return Prefetch(buffer, change(address))
        case TileFill() | TileLoad() | TileStore() | TileFma():
            return _of_tiles(statement, change)
        case _:
            return statement


def _of_tiles(statement: TileFill | TileLoad | TileStore | TileFma, change: Callable[[Index], Index]) -> Statement:
    match statement:
        case TileFill(tile, value):
            return TileFill(_tile(tile, change), value)
        case TileLoad(tile, _, address, _, _):
            return replace(statement, tile=_tile(tile, change), address=change(address))
        case TileStore(_, address, _, tile):
            return replace(statement, tile=_tile(tile, change), address=change(address))
        case TileFma(total, left, right):
            return TileFma(_tile(total, change), _tile(left, change), _tile(right, change))


def _tile(tile: Tile, change: Callable[[Index], Index]) -> Tile:
    return Tile(tile.tiles, change(tile.at))


def _resized(var: Var, extent: Index, bind: Bind, body: tuple[Statement, ...]) -> For:
    """Return a loop whose variable, which its body uses, has another extent."""
    if extent == var.extent:
        return For(var, bind, body)
    sized = replace(var, extent=extent if extent.constant is None else extent.constant)
    return For(sized, bind, substituted(body, {var: Index.of(sized)}))


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
