"""Where the parts of a statement or declaration are in the text, so that a finding can point at the one at fault."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from openinfer.diagnostics import Span

LONGEST_STATEMENT = 10_000
"""Most characters of a statement in which a part is pointed at: longer ones are read by no person."""


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of the source: character offsets ``start`` (included) to ``end`` (excluded)."""

    start: int
    end: int


NamedPlaces: TypeAlias = Mapping[str, tuple[Place, Place]]
"""Places of name and value of each ``name=value``."""


@dataclass(frozen=True, slots=True)
class Places:
    """The parts of a statement, in the order written.

    Attributes:
        name: the operator, or the label of a loop.
        reads: what is read: inputs of an operator, source of a copy or of ``cache.…``, condition of a branch.
        writes: what is written: outputs, targets, the temporary of an ``assign``, the index of a loop.
        operands: bounds of a loop, extents of an ``assign``, blocks of a branch, targets of ``dep``, variables of
            ``yield``, ``await`` and ``return``.
        settings, hints: ``name=value``, by name.
    """

    name: Place | None = None
    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()
    operands: tuple[Place, ...] = ()
    settings: NamedPlaces = field(default_factory=dict[str, "tuple[Place, Place]"])
    hints: NamedPlaces = field(default_factory=dict[str, "tuple[Place, Place]"])


NOWHERE = Places()
"""The parts of a statement that came from no text."""


@dataclass(frozen=True, slots=True)
class DeclarationPlaces:
    """The parts of a declaration: its name, extents, index names, and attributes by name."""

    name: Place
    dims: tuple[Place, ...] = ()
    formals: tuple[Place, ...] = ()
    attributes: Mapping[str, Place] = field(default_factory=dict[str, Place])


def part(places: tuple[Place, ...], number: int) -> Place | None:
    """Return one of several places, or None where it is not known."""
    return places[number] if number < len(places) else None


def around(places: tuple[Place, ...]) -> Place | None:
    """Return the place from the first to the last of several, or None if there are none."""
    return Place(places[0].start, places[-1].end) if places else None


def setting_name_place(places: Places, setting: str) -> Place | None:
    """Return the place of a setting's name as written."""
    return places.settings[setting][0] if setting in places.settings else None


def setting_value_place(places: Places, setting: str) -> Place | None:
    """Return the place of a setting's value."""
    return places.settings[setting][1] if setting in places.settings else None


def place_of_word(whole: Span | None, place: Place | None, word: str) -> Place | None:
    """Return where a word is in a part of a statement, brackets first; the part itself where it is not found."""
    if whole is None or place is None:
        return place
    text = whole.source.text[place.start : place.end]
    match_ = re.compile(rf"\b{re.escape(word)}\b").search(text, text.find("[") + 1)
    return place if match_ is None else Place(place.start + match_.start(), place.start + match_.end())


def span_of(whole: Span | None, place: Place | None) -> Span | None:
    """Return the span of a part; that of the ``whole`` statement where the part is not known or hard to see."""
    if whole is None or place is None or whole.end - whole.start > LONGEST_STATEMENT:
        return whole
    text = whole.source.text
    line = whole.line + text.count("\n", whole.start, place.start)
    column = place.start - text.rfind("\n", 0, place.start)
    return Span(whole.source, place.start, place.end, line, column)
