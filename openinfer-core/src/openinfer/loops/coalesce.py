"""Fewer loops: those of one iteration are written out, nested ones become one where every index steps evenly on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops.nodes import Bind, For, If
from openinfer.loops.substitution import indices_of, substituted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.loops.nodes import Kernel, Statement


def coalesced(kernel: Kernel) -> Kernel:
    """Return a loop program that does the same in the same order with fewer loops."""
    return replace(kernel, body=_block(kernel.body))


def _block(body: Sequence[Statement]) -> tuple[Statement, ...]:
    return tuple(each for statement in body for each in _statement(statement))


def _statement(statement: Statement) -> tuple[Statement, ...]:
    match statement:
        case For(var, _, body) if var.extent == 1:
            return _block(substituted(body, {var: Index()}))
        case For(var, bind, body):
            inner = _block(body)
            merged = _merged(var, inner[0]) if bind is Bind.SERIAL and len(inner) == 1 else None
            return (merged or For(var, bind, inner),)
        case If(tests, body):
            return (If(tests, _block(body)),)
        case _:
            return (statement,)


def _merged(outer: Var, inner: Statement) -> For | None:
    """Merge two nested loops whose indices use both variables as the digits of one number."""
    match inner:
        case For(Var(extent=int(count)) as var, Bind.SERIAL, body) if isinstance(outer.extent, int):
            pairs = ((index.coefficient(outer), index.coefficient(var)) for index in indices_of(body))
            if any(low is None or high is None or high != low * count for high, low in pairs):
                return None
            both = Var(outer.name, outer.extent * count)
            # The outer digit goes, the inner one counts on: coefficients of the inner one are those of both.
            return For(both, Bind.SERIAL, substituted(body, {outer: Index(), var: Index.of(both)}))
        case _:
            return None
