"""Which plugins may load, and which of their passes and observers run: environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import near_or_known
from openinfer.errors import PluginError
from openinfer.plugins.crossing import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.plugins.discovery import Candidate
    from openinfer.plugins.environment import PluginInfo

ALLOW = "OPENINFER_PLUGINS"
AUTOLOAD = "OPENINFER_PLUGINS_AUTOLOAD"
STRICT = "OPENINFER_PLUGINS_STRICT"
OFF = "OPENINFER_PLUGINS_OFF"

PARTS = ("passes", "observers")
"""Fields of `Environment` whose objects can be switched off: they run unasked, and nothing depends on them."""

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What may load. A plugin is named by its entry point or by its distribution.

    Attributes:
        block: plugins that stay out, core's own among them if named.
        allow: when not None, only these load, and core's own.
        autoload: whether installed plugins load without being named in ``allow``; core's own do anyway.
        strict: whether a plugin that does not load is an error.
        off: passes and observers that do not run, by name.
    """

    block: frozenset[str] = frozenset()
    allow: frozenset[str] | None = None
    autoload: bool = True
    strict: bool = False
    off: frozenset[str] = frozenset()


def from_variables(variables: Mapping[str, str]) -> Switches:
    """Return the switches that environment variables set.

    Raises:
        PluginError: a flag is neither 0 nor 1.
    """
    allowed = variables.get(ALLOW)
    return Switches(
        block=names(variables.get(BLOCK, "")),
        allow=None if allowed is None else names(allowed),
        autoload=_flag(variables, AUTOLOAD, default=True),
        strict=_flag(variables, STRICT, default=False),
        off=names(variables.get(OFF, "")),
    )


def names(text: str) -> frozenset[str]:
    """Return the names of a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def without_parts(offered: Mapping[str, Mapping[str, Any]], off: frozenset[str]) -> dict[str, Mapping[str, Any]]:
    """Return what plugins offer, by fields of `Environment`, without passes and observers that are switched off.

    Raises:
        PluginError: there is no pass or observer of a name.
    """
    parts = [name for field in PARTS for name in offered[field]]
    unknown = min(off - {*parts}, default=None)
    if unknown is not None:
        hint = near_or_known(unknown, sorted(parts), "the passes and observers")
        raise PluginError(f"{OFF} or --plugins-off names {unknown!r}, which is not a pass or observer: {hint}")
    return {
        field: MappingProxyType({name: value for name, value in objects.items() if name not in off})
        if field in PARTS
        else objects
        for field, objects in offered.items()
    }


def unmatched(switches: Switches, plugins: Iterable[PluginInfo]) -> tuple[str, ...]:
    """Return the names in the switches that no plugin or distribution has."""
    present = {name for plugin in plugins for name in (plugin.name, plugin.distribution)}
    return tuple(sorted((switches.block | (switches.allow or frozenset())) - present))


def _flag(variables: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = variables.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in _FLAGS:
        raise PluginError(f"expected 0 or 1 in {name}, found {text!r}")
    return _FLAGS[text.lower()]


def kept_out(switches: Switches, candidate: Candidate) -> str | None:
    """Return why a plugin may not load, or None when it may."""
    called = {candidate.name, candidate.distribution}
    if called & switches.block:
        return f"named in {BLOCK} or --plugins-block"
    if candidate.always or (switches.allow is not None and called & switches.allow):
        return None
    if switches.allow is not None:
        return f"not named in {ALLOW} or --plugins"
    return None if switches.autoload else f"{AUTOLOAD} is 0 or --no-plugins-autoload is given"
