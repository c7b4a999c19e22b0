"""Every name of a program with the role it has where it stands, and the definitions that names lead to."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from openinfer.editors.segments import Segment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Role(Enum):
    """What a name stands for at one place."""

    VALUE = "value"
    BLOCK = "block"
    LOOP = "loop"
    FORMAL = "formal"
    SIZE = "size"
    OP = "op"
    SETTING = "setting"
    DTYPE = "dtype"
    ATTRIBUTE = "attribute"
    HINT = "hint"
    TARGET = "target"


class Sort(Enum):
    """What a definition defines."""

    VARIABLE = "variable"
    TEMPORARY = "temporary"
    INDEX = "index"
    FORMAL = "formal"
    LOOP = "loop"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name at a place.

    ``context`` is the operator of a setting, the variable before the brackets around a value, or the declaration
    that a formal belongs to.
    """

    name: str
    start: int
    end: int
    role: Role
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Where a name is defined.

    Attributes:
        start, end: place of the name.
        section: memory section of a variable; block of a temporary, index or loop; ``auto_dim`` of such a formal.
        first, last: offsets between which an index, loop or formal is known; for others the whole text.
        text: the declaration or the head of the statement, on one line.
        owner: the variable that a formal belongs to.
        formals: the formals of a variable.
    """

    name: str
    sort: Sort
    start: int
    end: int
    section: str = ""
    first: int = 0
    last: int = 0
    text: str = ""
    owner: str = ""
    formals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What encloses a piece of text: ``kind`` is top, section, body or unknown; ``name`` the section or block."""

    kind: str
    name: str = ""


@dataclass(slots=True)
class Outline:
    """What is known of a text (with its comments blanked out).

    Occurrences are in order and do not overlap; a definition is an occurrence too.
    """

    text: str
    segments: list[tuple[Context, Segment]] = field(default_factory=list[tuple[Context, Segment]])
    occurrences: list[Occurrence] = field(default_factory=list[Occurrence])
    definitions: list[Definition] = field(default_factory=list[Definition])
    _named: dict[str, list[Definition]] = field(default_factory=lambda: defaultdict(list))

    def define(self, definition: Definition) -> None:
        """Add a definition."""
        self.definitions.append(definition)
        self._named[definition.name].append(definition)

    def at(self, offset: int) -> Occurrence | None:
        """Return the name that a cursor before the character at ``offset`` touches."""
        place = bisect_right(self.occurrences, offset, key=lambda occurrence: occurrence.start) - 1
        if place < 0 or self.occurrences[place].end < offset:
            return None
        return self.occurrences[place]

    def segment_at(self, offset: int) -> tuple[Context, Segment]:
        """Return the piece of the program that a cursor before ``offset`` is in, and what encloses it."""
        place = bisect_right(self.segments, offset, key=lambda pair: pair[1].start) - 1
        return self.segments[max(0, place)]

    def definition(self, occurrence: Occurrence) -> Definition | None:
        """Return what a name stands for, by the language's order of lookup; None for what the text does not define."""
        found = self._named.get(occurrence.name, ())
        for sorts in _LOOKUP.get(occurrence.role, ()):
            near = [d for d in found if d.sort in sorts and _known_at(d, occurrence)]
            if near:
                # Of nested loops with one index the innermost begins last.
                return max(near, key=lambda d: d.first)
        return None

    def uses(self, definition: Definition) -> list[Occurrence]:
        """Return every place that means ``definition``, the one that defines it included."""
        return [o for o in self.occurrences if o.name == definition.name and self.definition(o) == definition]

    def visible(self, offset: int) -> list[Definition]:
        """Return the variables, temporaries and indices that a statement at ``offset`` can name."""
        return [
            d
            for d in self.definitions
            if d.sort in (Sort.VARIABLE, Sort.TEMPORARY) or (d.sort is Sort.INDEX and d.first <= offset <= d.last)
        ]

    def operators(self) -> list[Occurrence]:
        """Return every use of an operator."""
        return [occurrence for occurrence in self.occurrences if occurrence.role is Role.OP]


_VARIABLES = frozenset({Sort.VARIABLE, Sort.TEMPORARY})
_LOOKUP: Mapping[Role, Sequence[frozenset[Sort]]] = {
    Role.VALUE: (frozenset({Sort.INDEX}), _VARIABLES, frozenset({Sort.FORMAL})),
    Role.BLOCK: (frozenset({Sort.BLOCK}),),
    Role.LOOP: (frozenset({Sort.LOOP}),),
    Role.FORMAL: (frozenset({Sort.FORMAL}),),
    Role.TARGET: (frozenset({Sort.LOOP}), frozenset({Sort.BLOCK}), _VARIABLES),
}


def _known_at(definition: Definition, occurrence: Occurrence) -> bool:
    if definition.sort is Sort.FORMAL:
        counts = occurrence.role is not Role.VALUE or definition.section == "auto_dim"
        return counts and definition.owner == occurrence.context
    if definition.sort is Sort.INDEX:
        own = (definition.start, definition.end) == (occurrence.start, occurrence.end)
        return own or definition.first <= occurrence.start <= definition.last
    if definition.sort is Sort.LOOP and occurrence.role is Role.LOOP:
        return definition.start == occurrence.start
    return True
