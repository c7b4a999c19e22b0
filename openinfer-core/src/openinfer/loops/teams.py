"""Threads of a group that wait for one another: which statements they do so at, and what lies between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops.nodes import Barrier, Bind, For, If, Join
from openinfer.loops.substitution import substituted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.loops.nodes import Statement


def is_meeting(body: Sequence[Statement], kinds: tuple[type, ...] = (Barrier, Join)) -> bool:
    """Return whether threads wait for one another, or combine values, in some statements."""
    return any(
        isinstance(each, kinds) or (isinstance(each, For | If) and is_meeting(each.body, kinds)) for each in body
    )


def team(loop: For) -> tuple[tuple[Var, ...], tuple[Statement, ...]]:
    """Return the variables of loops over threads that are directly nested, and what a thread does."""
    found, body = [loop.var], loop.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].bind is Bind.LOCAL:
        found.append(body[0].var)
        body = body[0].body
    return tuple(found), body


def phases(body: Sequence[Statement]) -> list[list[Statement]]:
    """Return what threads do between barriers: statements of one phase are done at the same time by several threads.

    Of a loop with barriers, the end of one iteration and the begin of the next are a phase.
    """
    found: list[list[Statement]] = []
    current: list[Statement] = []
    for statement in body:
        match statement:
            case Barrier():
                found.append(current)
                current = []
            case For(var, _, inner) if isinstance(var.extent, int) and var.extent and is_meeting(inner, (Barrier,)):
                first, *others = phases(inner)
                found += [[*current, *first], *others[:-1]]
                if var.extent > 1:
                    found.append([*others[-1], *substituted(first, {var: Index.of(var) + 1})])
                current = list(others[-1])
            case _:
                current.append(statement)
    return [*found, current]
