"""The text of a schedule: one word for each loop, outermost first, such as ``o:32 i:2 c i=unroll o:16=unroll o=lanes``.

A word is an axis, ``:`` and the step where it is not 1, ``=`` and how the loop is carried out where it is not serial:
``unroll``, ``partial`` (written out, each copy with totals of its own), ``lanes`` or ``joined`` (lanes that are added
to one total at once). ``stream=2`` after the loops names the element that passes by, ``skip=1`` the one past whose
border terms are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.loops import Bind
from openinfer.schedule.errors import ScheduleError
from openinfer.schedule.loops import Loop, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.affine import Var

_WORD = re.compile(r"(?P<axis>[A-Za-z_]\w*)(:(?P<step>[1-9]\d*))?(=(?P<manner>unroll|partial|lanes|joined))?")
_NUMBER = re.compile(r"(stream|skip)=(\d+)")
_MANNERS = {
    "unroll": (Bind.UNROLL, False, False),
    "partial": (Bind.UNROLL, True, False),
    "lanes": (Bind.LANES, False, False),
    "joined": (Bind.LANES, False, True),
}


def schedule_text(schedule: Schedule) -> str:
    """Return the text of a schedule, which `parse_schedule` reads back."""
    words = [_word(loop) for loop in schedule.loops]
    if schedule.stream is not None:
        words.append(f"stream={schedule.stream}")
    if schedule.skip is not None:
        words.append(f"skip={schedule.skip}")
    return " ".join(words)


def parse_schedule(text: str, axes: Iterable[Var]) -> Schedule:
    """Return the schedule that a text spells, over the axes of a stage, folded ones among them.

    Raises:
        ScheduleError: a word is not a loop, or names another axis.
    """
    by_name = {axis.name: axis for axis in axes}
    words = text.split()
    numbers: dict[str, int] = {}
    while words and (number := _NUMBER.fullmatch(words[-1])):
        numbers[number[1]] = int(number[2])
        words.pop()
    return Schedule(tuple(_loop(word, by_name) for word in words), numbers.get("stream"), numbers.get("skip"))


def _word(loop: Loop) -> str:
    step = f":{loop.step}" if loop.step != 1 else ""
    manners = (name for name, manner in _MANNERS.items() if manner == (loop.bind, loop.partial, loop.joined))
    manner = next(manners, "")
    return f"{loop.axis.name}{step}{'=' if manner else ''}{manner}"


def _loop(word: str, axes: Mapping[str, Var]) -> Loop:
    match_ = _WORD.fullmatch(word)
    if match_ is None:
        raise ScheduleError(f"{word!r} is not a loop: expected axis, axis:step or axis:step={'|'.join(_MANNERS)}")
    if match_["axis"] not in axes:
        raise ScheduleError(f"the loop {word!r} is over an unknown axis; known: {', '.join(sorted(axes)) or 'none'}")
    manner = _MANNERS.get(match_["manner"] or "", (Bind.SERIAL, False, False))
    return Loop(axes[match_["axis"]], int(match_["step"] or 1), *manner)
