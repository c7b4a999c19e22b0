"""Loads plugins one by one, so that a broken one is reported and the rest works.

Entry points of the group ``openinfer`` are imported in order: those of this repository first, then by name. A plugin
ends in one of five states: ok; failed (it cannot be imported, or a hook of it is wrong or raised); blocked (a switch
keeps it out, and it is never imported); duplicate (its name, or the name of something that it offers, is taken);
incompatible (it wants newer hooks). Nothing of a plugin that is not ok stays. What plugins print meanwhile goes to
standard error.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from openinfer.errors import PluginError
from openinfer.plugins import discovery
from openinfer.plugins.catalogue import Catalogue
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.environment import Environment, PluginInfo, Status
from openinfer.plugins.kernels import KernelSources, kernel_choice, kernel_source
from openinfer.plugins.newer_core import newer_core
from openinfer.plugins.offers import offers_of
from openinfer.plugins.output import diverted_output
from openinfer.plugins.part_options import with_options
from openinfer.plugins.registration import failure, new_manager, register
from openinfer.plugins.switches import PartOption, Switches, from_variables, kept_out, without_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pluggy

    from openinfer.plugins.discovery import Candidate
    from openinfer.plugins.offers import Offer
    from openinfer.plugins.types import OptionValue


def default_environment() -> Environment:
    """Return what the installed plugins offer under the switches of the environment variables.

    Plugins load at the first call; later calls return the same value while the variables stay as they are.

    Raises:
        PluginError: a switch is malformed, or sets an option that is not there; or, where
            ``OPENINFER_PLUGINS_STRICT`` is set, a plugin did not load or a switch names a pass or observer that is not
            there.
    """
    return _loaded_once(from_variables(os.environ))


@cache
def _loaded_once(switches: Switches) -> Environment:
    return _load(discovery.installed(), switches, strict_options=switches.strict)


def load_environment(
    *,
    block: Iterable[str] = (),
    allow: Iterable[str] | None = None,
    autoload: bool = True,
    strict: bool = False,
    off: Iterable[str] = (),
    options: Mapping[str, Mapping[str, OptionValue]] | None = None,
    extra: Iterable[tuple[str, object]] = (),
) -> Environment:
    """Load the installed plugins afresh, whatever the environment variables say.

    Args:
        block: plugins that stay out, by the name of the entry point or of the distribution.
        allow: when given, only these load, and core's own.
        autoload: whether installed plugins load that ``allow`` does not name; core's own do anyway.
        strict: whether a plugin that does not load is an error.
        off: passes and observers that do not run, by name.
        options: values of options of passes and observers, by the name of the part and of the option.
        extra: further plugins as (name, module); they load after the installed ones, unless blocked.

    Raises:
        PluginError: ``strict``, and a plugin is failed, duplicate or incompatible; or ``options`` names a part or an
            option that is not there, or has a value of another type.
    """
    switches = Switches(
        block=frozenset(block),
        allow=None if allow is None else frozenset(allow),
        autoload=autoload,
        strict=strict,
        off=frozenset(off),
        options=tuple(
            PartOption(part, name, value) for part, values in (options or {}).items() for name, value in values.items()
        ),
    )
    return _load([*discovery.installed(), *discovery.given(extra)], switches, strict_options=True)


@dataclass(slots=True)
class _Loading:
    """Plugins so far."""

    manager: pluggy.PluginManager = field(default_factory=new_manager)
    catalogue: Catalogue = field(default_factory=Catalogue)
    loaded: list[tuple[Candidate, object]] = field(default_factory=list[tuple["Candidate", object]])
    infos: list[PluginInfo] = field(default_factory=list[PluginInfo])


def _load(candidates: Iterable[Candidate], switches: Switches, *, strict_options: bool) -> Environment:
    loading = _Loading()
    with diverted_output():
        for candidate in candidates:
            loading.infos.append(_load_one(loading, switches, candidate))
    if switches.strict:
        _raise_if_broken(loading.infos)
    catalogue = loading.catalogue
    offered, aliases = catalogue.mappings(), catalogue.aliases("ops")
    _report_profiles_without_target(catalogue, strict=switches.strict)
    sources = KernelSources(
        manager=loading.manager,
        loaded=tuple(loading.loaded),
        ops={**{name: name for name in offered["ops"]}, **aliases},
        offered=catalogue.places(),
        replaced=catalogue.replaced_places(),
        strict=switches.strict,
    )
    return Environment(
        plugins=tuple(loading.infos),
        providers=catalogue.providers(),
        op_aliases=aliases,
        kernel_source=kernel_source(sources),
        kernel_choice=kernel_choice(sources),
        **without_parts(with_options(offered, switches.options, strict=strict_options), switches),
    )


def _report_profiles_without_target(catalogue: Catalogue, *, strict: bool) -> None:
    """Warn of profiles for synth targets that nobody offers, which have no effect.

    Raises:
        PluginError: there is one, and ``strict``.
    """
    for error in catalogue.profiles_without_target():
        if strict:
            raise error
        warnings.warn(f"{error}; it has no effect", PluginWarning, stacklevel=2)


def _load_one(loading: _Loading, switches: Switches, candidate: Candidate) -> PluginInfo:
    reason = kept_out(switches, candidate)
    if reason is not None:
        return _info(candidate, Status.BLOCKED, reason)
    offers: list[Offer] = []
    try:
        _check_name(loading, candidate)
        plugin = register(loading.manager, candidate)
        _take(loading, candidate, plugin, offers)
    except PluginError as error:
        withheld = tuple((offer.kind.noun, name) for offer in offers for name in offer.names)
        newer = newer_core(error.__cause__, candidate.distribution)
        reason = str(error) if newer is None else f"{error}; {newer}"
        return replace(_info(candidate, Status(error.status), reason), withheld=withheld)
    return _info(candidate, Status.OK, "")


def _check_name(loading: _Loading, candidate: Candidate) -> None:
    for other, _ in loading.loaded:
        if other.name == candidate.name:
            message = (
                f"the plugin name {candidate.name!r} of distribution {candidate.distribution} is already taken by "
                f"distribution {other.distribution}: uninstall or block one of the two by its distribution"
            )
            raise failure(candidate, message, status=Status.DUPLICATE)


def _take(loading: _Loading, candidate: Candidate, plugin: object, offers: list[Offer]) -> None:
    """Take in what a plugin offers; ``offers`` is filled with what was found, also where that fails."""
    try:
        for offer in offers_of(loading.manager, candidate, plugin):
            offers.append(offer)  # noqa: PERF402 - an extension would leave nothing behind when it fails half-way
        loading.catalogue.take(candidate, offers)
    except PluginError:
        loading.manager.unregister(plugin)
        raise
    loading.loaded.append((candidate, plugin))


def _info(candidate: Candidate, status: Status, reason: str) -> PluginInfo:
    return PluginInfo(
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        status=status,
        reason=reason,
    )


_BROKEN = (Status.FAILED, Status.DUPLICATE, Status.INCOMPATIBLE)


def _raise_if_broken(infos: Iterable[PluginInfo]) -> None:
    broken = [info for info in infos if info.status in _BROKEN]
    if not broken:
        return
    reason = "; ".join(f"{i.name} of {i.distribution} is {i.status.value}: {i.reason}" for i in broken)
    first = broken[0]
    message = f"plugins did not load, and strict loading is on: {reason}"
    raise PluginError(message, plugin=first.name, distribution=first.distribution, status=first.status.value)
