"""Gathers what the plugins offer; every name belongs to one plugin unless another says that it replaces it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import near_or_known
from openinfer.dtypes import BY_NAME
from openinfer.ops.schema import Composite, OpSchema
from openinfer.plugins.definitions import composite_misfit
from openinfer.plugins.environment import Status
from openinfer.plugins.offers import KINDS
from openinfer.plugins.registration import failure
from openinfer.plugins.types import ProfileSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.errors import PluginError
    from openinfer.plugins.discovery import Candidate
    from openinfer.plugins.offers import Offer


@dataclass(frozen=True, slots=True)
class _Owned:
    offer: Offer
    owner: Candidate


@dataclass(slots=True)
class Catalogue:
    """Offers that were taken in, by kind and by each of their names.

    Attributes:
        replaced: offers that others took the place of: field of the kind, canonical name, and plugin.
    """

    owned: dict[tuple[str, str], _Owned] = field(default_factory=dict[tuple[str, str], _Owned])
    replaced: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def take(self, candidate: Candidate, offers: Sequence[Offer]) -> None:
        """Take in everything that one plugin offers, or nothing.

        An offer whose ``replaces`` is the plugin that has its name puts that plugin's object out; in the other order
        of loading, an offer that is already replaced is left out.

        Raises:
            PluginError: a name is taken (status duplicate), or an operator names an element type that does not
                exist.
        """
        _check_dtypes(candidate, offers)
        merged, replaced = dict(self.owned), set(self.replaced)
        for offer in offers:
            rivals = _rivals(merged, offer)
            if any(rival.offer.replaces == candidate.name for rival in rivals):
                replaced.add((offer.kind.field, offer.names[0], candidate.name))
                continue
            for rival in rivals:
                _check_replaces(candidate, offer, rival)
                _put_out(merged, rival)
                replaced.add((offer.kind.field, rival.offer.names[0], rival.owner.name))
            for name in offer.names:
                merged[offer.kind.field, name] = _Owned(offer, candidate)
        _check_composites(candidate, offers, merged)
        self.owned, self.replaced = merged, replaced

    def mappings(self) -> dict[str, Mapping[str, Any]]:
        """Return the objects by canonical name, one mapping for each kind, under the field of `Environment`."""
        objects: dict[str, dict[str, Any]] = {kind.field: {} for kind in KINDS}
        for (kind, name), owned in self.owned.items():
            if name == owned.offer.names[0]:
                objects[kind][name] = owned.offer.value
        return {kind: MappingProxyType(named) for kind, named in objects.items()}

    def aliases(self, kind: str) -> Mapping[str, str]:
        """Return the canonical name for every alias of a kind."""
        pairs = ((name, owned.offer.names[0]) for (field_, name), owned in self.owned.items() if field_ == kind)
        return MappingProxyType({alias: name for alias, name in pairs if alias != name})

    def profiles_without_target(self) -> Iterator[PluginError]:
        """Yield an error for each profile for a synth target that no plugin offers."""
        targets = sorted(name for kind, name in self.owned if kind == "targets")
        for owned in self.owned.values():
            spec = owned.offer.value
            if isinstance(spec, ProfileSpec) and spec.synth_target not in targets:
                hint = near_or_known(spec.synth_target, targets, "the synth targets")
                message = f"profile {spec.name!r} is for synth target {spec.synth_target!r}, which is not there: {hint}"
                yield failure(owned.owner, message, hook=owned.offer.kind.hook)

    def places(self) -> dict[str, set[str]]:
        """Return the plugins that offer a device or synth target, by its name."""
        plugins: dict[str, set[str]] = {}
        for (kind, name), owned in self.owned.items():
            if kind in _PLACES:
                plugins.setdefault(name, set()).add(owned.owner.name)
        return plugins

    def replaced_places(self) -> frozenset[tuple[str, str]]:
        """Return pairs of a plugin and a name under which it has neither device nor synth target, since others took
        what it had."""
        there = self.places()
        pairs = {(plugin, name) for kind, name, plugin in self.replaced if kind in _PLACES}
        return frozenset((plugin, name) for plugin, name in pairs if plugin not in there.get(name, ()))

    def providers(self) -> Mapping[tuple[str, str], str]:
        """Return the name of the plugin that provided an object, by noun and canonical name."""
        return MappingProxyType(
            {
                (owned.offer.kind.noun, name): owned.owner.name
                for (_, name), owned in self.owned.items()
                if name == owned.offer.names[0]
            }
        )


_PLACES = frozenset({"devices", "targets"})
"""Kinds of offers that kernels are made for."""


def _check_dtypes(candidate: Candidate, offers: Sequence[Offer]) -> None:
    for schema in (offer.value for offer in offers if isinstance(offer.value, OpSchema)):
        named = {*schema.dtypes, *(name for spec in schema.inputs for name in spec.dtypes or ())}
        unknown = min(named - BY_NAME.keys(), default=None)
        if unknown is not None:
            hint = near_or_known(unknown, sorted(BY_NAME), "the element types")
            message = f"OpSchema {schema.name!r}: dtypes names {unknown!r}, which is not an element type: {hint}"
            raise failure(candidate, message, hook="openinfer_ops")


def _check_composites(candidate: Candidate, offers: Sequence[Offer], owned: Mapping[tuple[str, str], _Owned]) -> None:
    """Check the decompositions that a third party offers, which call operators of plugins that are loaded so far."""
    composites = [offer.value for offer in offers if _is_composite(offer.value)]
    if not composites or not candidate.owner.is_foreign:
        return
    ops = {name: taken.offer.value for (kind, name), taken in owned.items() if kind == "ops"}
    for schema in composites:
        unfit = composite_misfit(candidate.owner, schema, ops)
        if unfit is not None:
            raise failure(candidate, f"hook openinfer_ops yielded {unfit}", hook="openinfer_ops")


def _is_composite(value: object) -> bool:
    return isinstance(value, OpSchema) and isinstance(value.definition, Composite)


def _rivals(owned: Mapping[tuple[str, str], _Owned], offer: Offer) -> list[_Owned]:
    rivals = [owned[offer.kind.field, name] for name in offer.names if (offer.kind.field, name) in owned]
    return list({id(rival): rival for rival in rivals}.values())


def _check_replaces(candidate: Candidate, offer: Offer, rival: _Owned) -> None:
    if rival.owner is not candidate and offer.replaces == rival.owner.name:
        return
    name = next(name for name in offer.names if name in rival.offer.names)
    message = (
        f"{offer.kind.noun} {name!r} of distribution {candidate.distribution} is already provided by plugin "
        f"{rival.owner.name!r} of distribution {rival.owner.distribution}: rename it, "
        f"or declare replaces={rival.owner.name!r}"
    )
    raise failure(candidate, message, hook=offer.kind.hook, status=Status.DUPLICATE)


def _put_out(owned: dict[tuple[str, str], _Owned], rival: _Owned) -> None:
    for name in rival.offer.names:
        owned.pop((rival.offer.kind.field, name), None)
