"""Calls that are bound to all that they work on when a program is made, so that running it is a flat loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

BoundCall: TypeAlias = Callable[[], object]
"""The return value is ignored."""


def in_order(calls: Sequence[BoundCall]) -> BoundCall:
    """Return one call that makes several, in order."""
    if len(calls) == 1:
        return calls[0]
    fixed = tuple(calls)

    def run() -> None:
        for call in fixed:
            call()

    return run
