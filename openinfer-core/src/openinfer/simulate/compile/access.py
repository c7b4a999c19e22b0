"""What stands in the brackets of a cache access, evaluated when the statement runs or given by the host as text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.errors import ExecutionError
from openinfer.ir.nodes import Single

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ir.nodes import CacheAccess, Slice
    from openinfer.simulate.compile.names import Names
    from openinfer.simulate.program.integers import IntReader
    from openinfer.simulate.state.cache import Slot
    from openinfer.symbolic import IntExpr

_INDEX = re.compile(r"[0-9]+", re.ASCII)
_RANGE = re.compile(r"([0-9]+)?\s*\.\.\s*(-?[0-9]+)?", re.ASCII)


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


def slots_of(name: str, text: str, formals: Sequence[str]) -> tuple[Slot, ...]:
    """Return the slots that a host wrote, such as ``"0, 2"`` or ``"0, ..3"``; an empty one is everything.

    Raises:
        ExecutionError: ``index-count``, there are too many or one is not an integer or range of integers.
    """
    if not text.strip():
        return ()
    parts = [part.strip() for part in text.split(",")]
    slots = [_written(part) for part in parts]
    if len(parts) > len(formals) or any(slot is None for slot in slots):
        message = f"`{name}[{text}]`: expected up to {len(formals)} integers or ranges, such as `{name}[0, 0..2]`"
        raise ExecutionError(message, code="index-count")
    return tuple(slot for slot in slots if slot is not None)


def _written(part: str) -> Slot | None:
    if not part:
        return None, None
    if _INDEX.fullmatch(part):
        return int(part)
    match = _RANGE.fullmatch(part)
    if match is None:
        return None
    start, end = match.groups()
    return (None if start is None else int(start)), (None if end is None else int(end))
