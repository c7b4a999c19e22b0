"""Slots in the brackets of a cache access, evaluated when the statement runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import Single

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ir.nodes import CacheAccess, Slice
    from openinfer.simulate.compile.names import Names
    from openinfer.simulate.program.integers import IntReader
    from openinfer.simulate.state.cache import Slot
    from openinfer.symbolic import IntExpr


def slot_reader(access: CacheAccess, names: Names) -> Callable[[], tuple[Slot, ...]]:
    """Return a function that evaluates the slots of an access."""
    if not access.slots:
        return tuple
    readers = [_reader(slot, names) for slot in access.slots]
    return lambda: tuple([read() for read in readers])


def _reader(slot: Single | Slice, names: Names) -> Callable[[], Slot]:
    if isinstance(slot, Single):
        index = names.integer(slot.index)
        return index if callable(index) else lambda: index
    start, end = _bound(slot.start, names), _bound(slot.end, names)
    if not callable(start) and not callable(end):
        fixed = (start, end)
        return lambda: fixed
    return lambda: (start() if callable(start) else start, end() if callable(end) else end)


def _bound(bound: IntExpr | None, names: Names) -> int | IntReader | None:
    return None if bound is None else names.integer(bound)
