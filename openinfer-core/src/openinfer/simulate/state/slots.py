"""Slots of a cache access that the host writes as text: ``"0, 2"`` or ``"0, ..3"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.simulate.state.cache import Slot

_INDEX = re.compile(r"[0-9]+", re.ASCII)
_RANGE = re.compile(r"([0-9]+)?\s*\.\.\s*(-?[0-9]+)?", re.ASCII)


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
