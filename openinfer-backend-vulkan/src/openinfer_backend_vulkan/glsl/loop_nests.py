"""What a printer asks of a loop program: which loops enclose what, and which types are computed in."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.errors import UnsupportedError
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops import Bind, Fail, For, If, Join, Let, Lookup, Number, Set, Store, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.loops import Statement


def over_groups(body: Sequence[Statement]) -> tuple[list[Var], tuple[Statement, ...]]:
    """Return the loops over groups that enclose everything else, and what is inside."""
    match body:
        case [For(_, Bind.GROUP, _) as loop]:
            return chain(loop, Bind.GROUP)
        case _:
            return [], tuple(body)


def chain(loop: For, bind: Bind) -> tuple[list[Var], tuple[Statement, ...]]:
    """Return the variables of nested loops of one kind, and what is inside."""
    axes, body = [loop.var], loop.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].bind is bind:
        axes.append(body[0].var)
        body = body[0].body
    return axes, body


def statements_of(body: Sequence[Statement]) -> Iterator[Statement]:
    """Yield statements, and those inside of them."""
    for statement in body:
        yield statement
        if isinstance(statement, For | If):
            yield from statements_of(statement.body)
        if isinstance(statement, Join):
            yield from statements_of(statement.pairs)


def thread_counts(body: Sequence[Statement]) -> Iterator[int]:
    """Yield how many threads of a group each loop over threads takes."""
    for statement in body:
        match statement:
            case For(_, Bind.LOCAL, _):
                yield math.prod(extent_of(var) for var in chain(statement, Bind.LOCAL)[0])
            case For(_, _, inner) | If(_, inner):
                yield from thread_counts(inner)
            case _:
                pass


def computed_types(body: Sequence[Statement]) -> Iterator[str]:
    """Yield the names of types in which something is computed, counted or decided, not only moved."""
    for statement in statements_of(body):
        match statement:
            case Lookup(_, Value(tree.Input(), (Number(),))):
                pass
            case Lookup(_, value) | Fail(value, _):
                yield from (step.dtype.name for step in linearise(value.expr).instructions)
            case Let(_, value) | Set(_, value) | Store(_, _, value):
                yield from (leaf.dtype.name for leaf in value.leaves if isinstance(leaf, Number))
                if isinstance(value.expr, tree.Apply):
                    yield from (step.dtype.name for step in linearise(value.expr).instructions)
            case _:
                pass


def extent_of(var: Var) -> int:
    """Return the number of iterations of a loop.

    Raises:
        UnsupportedError: it is known at run time only.
    """
    if not isinstance(var.extent, int):
        raise UnsupportedError(f"a loop over {var.extent} places, which are known at run time only")
    return var.extent
