"""Plugins that are installed: entry points of the group `openinfer`, in the order in which they load."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from openinfer.plugins.crossing import PUBLISHED_HERE, Owner
from openinfer.plugins.hookspecs import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.metadata import EntryPoint

CORE = PUBLISHED_HERE[0]
"""Distribution whose plugin loads whatever the switches say, unless it is blocked by name."""

GIVEN = "(given in the program)"
"""Shown as the distribution of a plugin that was handed to the loader as a module."""

UNNAMED = "(unnamed)"
"""Shown for a distribution whose metadata are damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that was found and not imported yet.

    Attributes:
        name: name of the entry point.
        value: what the entry point names, for messages.
        load: imports it.
        always: whether it loads unless it is blocked by name: core's own, and what the program hands over.
    """

    name: str
    distribution: str
    version: str
    value: str
    load: Callable[[], object]
    always: bool = False

    @property
    def owner(self) -> Owner:
        """Whom messages and objects name."""
        return Owner(self.name, self.distribution)


def installed() -> list[Candidate]:
    """Return the installed plugins: those of this repository first, so that no other takes one of their names unasked;
    then by name, plugins of one name by distribution."""
    found = [_candidate(entry) for entry in entry_points(group=PROJECT)]
    return sorted(found, key=lambda c: (_rank(c.distribution), c.name, c.distribution))


def given(pairs: Iterable[tuple[str, object]]) -> list[Candidate]:
    """Return modules (or objects with the same attributes) as plugins, in the order given."""
    return [
        Candidate(
            name=name,
            distribution=GIVEN,
            version="",
            value=_name_of(module),
            load=lambda module=module: module,
            always=True,
        )
        for name, module in pairs
    ]


def _candidate(entry: EntryPoint) -> Candidate:
    name, version = _published(entry)
    return Candidate(
        name=entry.name,
        distribution=name,
        version=version,
        value=entry.value,
        load=entry.load,
        always=name == CORE,
    )


def _rank(distribution: str) -> int:
    return PUBLISHED_HERE.index(distribution) if distribution in PUBLISHED_HERE else len(PUBLISHED_HERE)


def _published(entry: EntryPoint) -> tuple[str, str]:
    """Return name and version of the distribution; a damaged installation may be without either, or both."""
    if entry.dist is None:
        return UNNAMED, ""
    try:
        metadata = entry.dist.metadata
    except Exception:  # noqa: BLE001 - interpreters differ in how they say that the file is missing
        return UNNAMED, ""
    # Asking for a field that is missing warns in some interpreters, and not all have `get`.
    name, version = (metadata[field] if field in metadata else "" for field in ("Name", "Version"))  # noqa: SIM401
    return _normalised(name) or UNNAMED, version


def _normalised(name: str) -> str:
    """Return the name of a distribution as indexes write it: older build tools wrote underscores."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _name_of(module: object) -> str:
    return str(getattr(module, "__name__", type(module).__name__))
