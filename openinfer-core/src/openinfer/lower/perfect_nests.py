"""Nested loops with nothing between them, or nothing that may not be done again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.loops import Bind, Fail, For, If, Let, Lookup, Set

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.loops import Statement


def nest_of(body: tuple[Statement, ...]) -> tuple[list[Var], tuple[Statement, ...]]:
    """Return the axes of nested loops, and what is inside.

    What is named or looked up between two loops is done inside of both: again and again, with the same result.
    """
    axes: list[Var] = []
    between: list[Statement] = []
    while body:
        *before, last = body
        if not isinstance(last, For) or last.bind is not Bind.SERIAL or not _may_repeat(before, last.body):
            break
        axes.append(last.var)
        between += before
        body = last.body
    return axes, (*between, *body)


def chain_of(body: tuple[Statement, ...], bind: Bind) -> tuple[list[Var], tuple[Statement, ...]]:
    """Return the axes of loops of one kind with nothing between them, outermost first, and what is inside."""
    axes: list[Var] = []
    while len(body) == 1 and isinstance(body[0], For) and body[0].bind is bind:
        axes.append(body[0].var)
        body = body[0].body
    return axes, body


def _may_repeat(statements: Sequence[Statement], inside: Sequence[Statement]) -> bool:
    """Return whether statements before a loop may be carried out in each of its iterations instead."""
    if not all(isinstance(statement, Let | Lookup | Fail) for statement in statements):
        return False
    named = {statement.name for statement in statements if isinstance(statement, Let)}
    return named.isdisjoint(set_in(inside))


def set_in(body: Sequence[Statement]) -> set[str]:
    """Return the names of scalars that statements set."""
    names: set[str] = set()
    for statement in body:
        match statement:
            case For(_, _, inner) | If(_, inner):
                names |= set_in(inner)
            case Set(name, _):
                names.add(name)
            case _:
                pass
    return names
