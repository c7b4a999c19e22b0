"""Loops over places in the opposite order: the last place first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.loops.nodes import Bind, For
from openinfer.loops.substitution import substituted

if TYPE_CHECKING:
    from openinfer.loops.nodes import Kernel, Statement


def backwards(kernel: Kernel) -> Kernel | None:
    """Return a loop program whose outermost loops run from their last iteration to their first, the last loop first.

    That is the same where no iteration uses what another one stores. None: it has statements other than loops, or loops
    whose iterations are known at run time only.
    """
    body = [_reversed(statement) for statement in reversed(kernel.body)]
    loops = [loop for loop in body if loop is not None]
    return replace(kernel, body=tuple(loops)) if loops and len(loops) == len(body) else None


def _reversed(statement: Statement) -> For | None:
    if not isinstance(statement, For) or statement.bind is not Bind.SERIAL or not isinstance(statement.var.extent, int):
        return None
    mirrored = Index.of(statement.var.extent - 1) - statement.var
    return For(statement.var, statement.bind, substituted(statement.body, {statement.var: mirrored}))
