"""Loops over a small window written out: a compiler then sees which elements and tests neighbouring terms share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.loops import Bind, For, Kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.loops import Statement

LONGEST, MOST_TERMS = 3, 9
"""Length of a loop and number of terms that are written out: those of a window of 3 by 3. Parts of a larger window made
llvmpipe slower rather than faster."""


def with_windows(kernel: Kernel) -> Kernel:
    """Return a loop program with the innermost serial loops, if they are several and short, as copies of statements.

    A loop that is alone goes over a whole row more often than over a window: it keeps its length as a number of the
    call, so that one shader serves rows of all lengths.
    """
    return replace(kernel, body=_written_out(kernel.body, 0))


def _written_out(body: Sequence[Statement], around: int) -> tuple[Statement, ...]:
    return tuple(_loop(statement, around) if isinstance(statement, For) else statement for statement in body)


def _loop(loop: For, around: int) -> For:
    serial = around + (loop.bind is Bind.SERIAL)
    body = _written_out(loop.body, serial)
    changed = replace(loop, body=body)
    terms = _copies(changed, Bind.SERIAL)
    is_window = serial > 1 or any(isinstance(statement, For) and statement.bind is Bind.UNROLL for statement in body)
    is_short = isinstance(loop.var.extent, int) and loop.var.extent <= LONGEST
    if not is_window or not is_short or terms is None or terms > MOST_TERMS:
        return changed
    return replace(changed, bind=Bind.UNROLL)


def _copies(loop: For, bind: Bind) -> int | None:
    """Return how many copies of statements a loop makes, with those written out in it; None: some loop has to stay."""
    extent = loop.var.extent
    inner = [_copies(statement, Bind.UNROLL) for statement in loop.body if isinstance(statement, For)]
    if loop.bind is not bind or not isinstance(extent, int) or None in inner:
        return None
    return extent * max((count for count in inner if count), default=1)
