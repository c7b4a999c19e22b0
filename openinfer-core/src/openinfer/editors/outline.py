"""Every name of a program with its role at that place, and the definitions that names refer to."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.dsl.tokens import Token


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


@dataclass(frozen=True, slots=True)
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
    text: str
    section: str = ""
    first: int = 0
    last: int = 0
    owner: str = ""
    formals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """A head, declaration or statement without the ``;`` or brace that ends it.

    Attributes:
        section: a kind of memory, ``block`` inside a block, or ``""`` at the top.
        tokens: what it is made of, without comments.
        start, stop: the offsets between which a cursor is inside of it.
    """

    section: str
    tokens: Sequence[Token]
    start: int
    stop: int


class Names:
    """Definitions by what is requested, each question answered in time that does not grow with their number."""

    def __init__(self, definitions: Iterable[Definition]) -> None:
        self._own: dict[int, Definition] = {}
        self._variables: dict[str, Definition] = {}
        self._blocks: dict[str, Definition] = {}
        self._loops: dict[str, Definition] = {}
        self._formals: dict[tuple[str, str], Definition] = {}
        ranges: dict[str, list[Definition]] = defaultdict(list)
        for found in sorted(definitions, key=lambda definition: definition.start):
            self._own[found.start] = found
            if found.sort in (Sort.VARIABLE, Sort.TEMPORARY):
                self._variables.setdefault(found.name, found)
            elif found.sort is Sort.BLOCK:
                self._blocks.setdefault(found.name, found)
            elif found.sort is Sort.LOOP:
                self._loops.setdefault(found.name, found)
            elif found.sort is Sort.FORMAL:
                self._formals.setdefault((found.name, found.owner), found)
            else:
                ranges[found.name].append(found)
        self._indices = {name: Ranges(found) for name, found in ranges.items()}

    def find(self, occurrence: Occurrence) -> Definition | None:
        """Return what a name stands for."""
        own = self._own.get(occurrence.start)
        if own is not None:
            return own
        name = occurrence.name
        match occurrence.role:
            case Role.VALUE:
                return self._index(occurrence) or self._variables.get(name) or self._count(occurrence)
            case Role.BLOCK:
                return self._blocks.get(name)
            case Role.FORMAL:
                return self._formals.get((name, occurrence.context))
            case Role.TARGET:
                return self._loops.get(name) or self._blocks.get(name) or self._variables.get(name)
            case _:
                return None

    def _index(self, occurrence: Occurrence) -> Definition | None:
        ranges = self._indices.get(occurrence.name)
        return None if ranges is None else ranges.innermost(occurrence.start)

    def _count(self, occurrence: Occurrence) -> Definition | None:
        """Return the formal that means a count of the growing variable whose brackets contain the name."""
        formal = self._formals.get((occurrence.name, occurrence.context))
        return formal if formal is not None and formal.section == "auto_dim" else None


class Ranges:
    """Indices of one name with the bodies of their loops, which lie inside or apart from each other."""

    def __init__(self, definitions: Sequence[Definition]) -> None:
        self._definitions = definitions
        self._firsts = [definition.first for definition in definitions]
        self._around: list[int] = []
        open_: list[int] = []
        for place, definition in enumerate(definitions):
            while open_ and definitions[open_[-1]].last < definition.first:
                open_.pop()
            self._around.append(open_[-1] if open_ else -1)
            open_.append(place)

    def innermost(self, offset: int) -> Definition | None:
        """Return the index of the innermost loop whose body holds ``offset``."""
        place = bisect_right(self._firsts, offset) - 1
        while place >= 0 and self._definitions[place].last < offset:
            place = self._around[place]
        return self._definitions[place] if place >= 0 else None


@dataclass(slots=True)
class Outline:
    """What is known of a text (with its comments blanked out).

    Occurrences are in order and do not overlap; a definition is an occurrence too. `complete` is called when all are
    added.
    """

    text: str
    segments: list[Segment] = field(default_factory=list[Segment])
    occurrences: list[Occurrence] = field(default_factory=list[Occurrence])
    definitions: list[Definition] = field(default_factory=list[Definition])
    _names: Names = field(default_factory=lambda: Names(()))

    def complete(self) -> None:
        """Put the occurrences in order, and make definitions quick to find."""
        self.occurrences.sort(key=lambda occurrence: occurrence.start)
        self._names = Names(self.definitions)

    def at(self, offset: int) -> Occurrence | None:
        """Return the name that a cursor before the character at ``offset`` touches."""
        place = bisect_right(self.occurrences, offset, key=lambda occurrence: occurrence.start) - 1
        if place < 0 or self.occurrences[place].end < offset:
            return None
        return self.occurrences[place]

    def segment_at(self, offset: int) -> Segment:
        """Return the part of the program that a cursor before ``offset`` is in."""
        return self.segments[max(0, bisect_right(self.segments, offset, key=lambda segment: segment.start) - 1)]

    def definition(self, occurrence: Occurrence) -> Definition | None:
        """Return what a name stands for, by the language's order of lookup; None for what the text does not define."""
        return self._names.find(occurrence)

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
