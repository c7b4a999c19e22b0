"""Which plugins may load, which of their passes and observers run, and with which options: environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import did_you_mean, near_or_known
from openinfer.errors import PluginError
from openinfer.plugins.crossing import BLOCK

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from openinfer.plugins.discovery import Candidate
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import OptionValue

ALLOW = "OPENINFER_PLUGINS"
AUTOLOAD = "OPENINFER_PLUGINS_AUTOLOAD"
STRICT = "OPENINFER_PLUGINS_STRICT"
OFF = "OPENINFER_PLUGINS_OFF"
OPTIONS = "OPENINFER_PLUGINS_OPTIONS"

VARIABLES = (BLOCK, ALLOW, AUTOLOAD, STRICT, OFF, OPTIONS)
"""All of them: workers of a batch on other machines are given these."""

PARTS = ("passes", "observers")
"""Fields of `Environment` whose objects can be switched off: they run unasked, and nothing depends on them."""

_PART_NOUNS = frozenset({"pass", "observer"})
"""What messages and ``Environment.providers`` call them."""

SEPARATOR = ";"
"""Between options in the variable."""

FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class PartOption:
    """A value of an option of a pass or observer, the part; text where it comes from a command line."""

    part: str
    name: str
    value: OptionValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What may load. A plugin is named by its entry point or by its distribution.

    Attributes:
        block: plugins that stay out, core's own among them if named.
        allow: when not None, only these load, and core's own.
        autoload: whether installed plugins load without being named in ``allow``; core's own do anyway.
        strict: whether a plugin that does not load is an error.
        off: passes and observers that do not run, by name.
        options: values of options of passes and observers; of several for one option the last counts.
    """

    block: frozenset[str] = frozenset()
    allow: frozenset[str] | None = None
    autoload: bool = True
    strict: bool = False
    off: frozenset[str] = frozenset()
    options: tuple[PartOption, ...] = ()


def from_variables(variables: Mapping[str, str]) -> Switches:
    """Return the switches that environment variables set.

    Raises:
        PluginError: a flag is neither 0 nor 1, or an option is not written ``PART.OPTION=VALUE``.
    """
    allowed = variables.get(ALLOW)
    return Switches(
        block=names(variables.get(BLOCK, "")),
        allow=None if allowed is None else names(allowed),
        autoload=_flag(variables, AUTOLOAD, default=True),
        strict=_flag(variables, STRICT, default=False),
        off=names(variables.get(OFF, "")),
        options=tuple(map(_option, filter(str.strip, variables.get(OPTIONS, "").split(SEPARATOR)))),
    )


def _option(text: str) -> PartOption:
    key, equals, value = text.partition("=")
    part, _, name = key.strip().rpartition(".")
    if not equals or not part or not name:
        message = f"expected PART.OPTION=VALUE in {OPTIONS} or after --plugins-option, found {text.strip()!r}"
        raise PluginError(message)
    return PartOption(part, name, value)


def names(text: str) -> frozenset[str]:
    """Return the names of a comma-separated list."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def without_parts(offered: Mapping[str, Mapping[str, Any]], switches: Switches) -> dict[str, Mapping[str, Any]]:
    """Return what plugins offer, by fields of `Environment`, without passes and observers that are switched off.

    Raises:
        PluginError: there is no pass or observer of a name, and loading is strict.
    """
    unknown = _unknown_parts(switches, [name for field in PARTS for name in offered[field]])
    if unknown and switches.strict:
        raise PluginError(unknown[0])
    return {
        field: MappingProxyType({name: value for name, value in objects.items() if name not in switches.off})
        if field in PARTS
        else objects
        for field, objects in offered.items()
    }


def unmatched(switches: Switches, environment: Environment) -> Mapping[str, str]:
    """Return the names in the switches that nothing has, each with what is wrong with it."""
    plugins = environment.plugins
    present = {name for plugin in plugins for name in (plugin.name, plugin.distribution)}
    problems: dict[str, str] = {}
    for name in sorted((switches.block | (switches.allow or frozenset())) - present):
        hint = did_you_mean(name, [plugin.name for plugin in plugins]) or "it has no effect"
        problems[name] = f"a switch names the plugin {name!r}, which is not installed: {hint}"
    # What is switched off has a provider too.
    parts = [name for noun, name in environment.providers if noun in _PART_NOUNS]
    unknown = sorted(switches.off - {*parts})
    return {**problems, **dict(zip(unknown, _unknown_parts(switches, parts), strict=True))}


def _unknown_parts(switches: Switches, parts: Collection[str]) -> list[str]:
    """Return what is wrong with each name that is switched off and that no pass or observer has, in order of names."""
    return [
        f"{OFF} or --plugins-off names {name!r}, which is not a pass or observer: "
        f"{near_or_known(name, sorted(parts), 'the passes and observers')}"
        for name in sorted(switches.off - {*parts})
    ]


def _flag(variables: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = variables.get(name, "").strip()
    if not text:
        return default
    if text.lower() not in FLAGS:
        raise PluginError(f"expected 0 or 1 in {name}, found {text!r}")
    return FLAGS[text.lower()]


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
