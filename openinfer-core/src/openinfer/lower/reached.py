"""Tests that refuse an element only where there is one: loops of sizes known at run time may have no iteration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.loops import Fail, For, If

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops import Kernel, Statement


def failing_where_reached(kernel: Kernel) -> Kernel:
    """Return a loop program in which what fails before a nest of loops does so only where all of them are entered."""
    return replace(kernel, body=_block(kernel.body))


def entered(axes: Iterable[Var]) -> tuple[Within, ...]:
    """Return the tests that loops over axes have iterations, of those whose extents are known at run time only."""
    return tuple(Within(Index(), axis.extent) for axis in axes if isinstance(axis.extent, Index))


def _block(body: Sequence[Statement]) -> tuple[Statement, ...]:
    inside = tuple(map(_statement, body))
    tests = entered(_nested(body)) if any(isinstance(statement, Fail) for statement in body) else ()
    return (If(tests, inside),) if tests else inside


def _statement(statement: Statement) -> Statement:
    match statement:
        case For() | If():
            return replace(statement, body=_block(statement.body))
        case _:
            return statement


def _nested(body: Sequence[Statement]) -> Iterator[Var]:
    """Yield the variables of the loops that a block ends in, each the last statement of the one around it."""
    while body and isinstance(body[-1], For):
        loop = body[-1]
        yield loop.var
        body = loop.body
