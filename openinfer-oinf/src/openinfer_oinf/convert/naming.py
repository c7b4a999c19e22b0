"""Names of other formats in the alphabet of containers: `/` becomes a dot, every other odd character `_`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..errors import Finding, OinfError, printable
from ..layout import check_name
from .model import source_error

_ODD = re.compile(r"[^A-Za-z0-9._-]")


def plain_name(name: str) -> str:
    """The name that a container can hold."""
    return _ODD.sub("_", name.replace("/", "."))


def mapped_names(names: Iterable[str], renames: Mapping[str, str], table: str) -> dict[str, str]:
    """The name in the container of each name of the source; `renames` maps source names (or plain ones) to others.

    Raises `OinfError`: E_DUPLICATE where two names become one, E_NAME for names that cannot be mapped.
    """
    mapped: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name in names:
        plain = plain_name(name)
        target = check_name(renames.get(name, renames.get(plain, plain)), table)
        other = owners.setdefault(target, name)
        if other != name or name in mapped:
            message = f"{printable(other)!r} and {printable(name)!r} both become {target!r}; rename one"
            raise OinfError(Finding(code="E_DUPLICATE", message=message, table=table, entry=target))
        mapped[name] = target
    return mapped


def check_renames_used(renames: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise `OinfError` (E_SOURCE) for a renaming of something that is not there."""
    known = {each for name in names for each in (name, plain_name(name))}
    for name in renames:
        if name not in known:
            raise source_error("a name to be renamed that the source does not have", name)
