"""Which plugins may load: environment variables, and what they say about one plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import PluginError
from openinfer.plugins.crossing import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.plugins.discovery import Candidate
    from openinfer.plugins.environment import PluginInfo

ALLOW = "OPENINFER_PLUGINS"
AUTOLOAD = "OPENINFER_PLUGINS_AUTOLOAD"
STRICT = "OPENINFER_PLUGINS_STRICT"

_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What may load. A plugin is named by its entry point or by its distribution.

    Attributes:
        block: plugins that stay out, core's own among them if named.
        allow: when not None, only these load, and core's own.
        autoload: whether installed plugins load without being named in ``allow``; core's own do anyway.
        strict: whether a plugin that does not load is an error.
    """

    block: frozenset[str] = frozenset()
    allow: frozenset[str] | None = None
    autoload: bool = True
    strict: bool = False


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
    )


def names(text: str) -> frozenset[str]:
    """Return the names of a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


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
