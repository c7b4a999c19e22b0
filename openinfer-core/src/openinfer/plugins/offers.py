"""What one plugin offers: the objects of its catalogue hooks, checked one by one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from openinfer.ops.schema import OpSchema
from openinfer.plugins import types
from openinfer.plugins.crossing import loading, shown
from openinfer.plugins.definitions import definition_misfit
from openinfer.plugins.descriptions import misfit
from openinfer.plugins.registration import failure
from openinfer.plugins.rules import guarded_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pluggy

    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.discovery import Candidate

MOST_OBJECTS = 100_000
"""Objects that one hook may yield: a generator that never ends is found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferKind:
    """A kind of object that plugins offer.

    Attributes:
        field: where `Environment` keeps it.
        noun: kind in messages and in ``Environment.providers``.
        arguments: what the hook is called with, one call for each entry.
    """

    hook: str
    field: str
    noun: str
    type: type[Any]
    arguments: tuple[Mapping[str, str], ...] = ({},)


KINDS = (
    OfferKind(hook="openinfer_ops", field="ops", noun="op", type=OpSchema),
    OfferKind(hook="openinfer_devices", field="devices", noun="device", type=types.DeviceSpec),
    OfferKind(hook="openinfer_synth_targets", field="targets", noun="synth target", type=types.SynthTargetSpec),
    OfferKind(hook="openinfer_profiles", field="profiles", noun="profile", type=types.ProfileSpec),
    OfferKind(
        hook="openinfer_passes",
        field="passes",
        noun="pass",
        type=types.PassSpec,
        arguments=tuple({"stage": stage} for stage in types.PASS_STAGES),
    ),
    OfferKind(hook="openinfer_model_formats", field="model_formats", noun="model format", type=types.ModelFormatSpec),
    OfferKind(hook="openinfer_importers", field="importers", noun="importer", type=types.ImporterSpec),
    OfferKind(hook="openinfer_attributes", field="attributes", noun="attribute", type=types.AttributeSpec),
    OfferKind(hook="openinfer_runners", field="runners", noun="runner", type=types.RunnerSpec),
    OfferKind(hook="openinfer_observers", field="observers", noun="observer", type=types.ObserverSpec),
    OfferKind(hook="openinfer_codes", field="codes", noun="code", type=types.CodeSpec),
    OfferKind(hook="openinfer_commands", field="commands", noun="command", type=types.CommandSpec),
)
"""Hooks whose objects are collected when plugins load, one for each mapping of `Environment`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One object with its kind and names, the canonical one first."""

    kind: OfferKind
    value: Any
    names: tuple[str, ...]

    @property
    def replaces(self) -> str | None:
        return getattr(self.value, "replaces", None)


def offers_of(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> Iterator[Offer]:
    """Yield everything that a registered plugin offers.

    Raises:
        PluginError: a hook raised, or yielded something else than its description.
    """
    for kind in KINDS:
        offers: list[Offer] = []
        for arguments in kind.arguments:
            values = _values(manager, candidate, plugin, kind.hook, arguments)
            fresh = [_offer(candidate, kind, value) for value in {id(value): value for value in values}.values()]
            # A hook that ignores its arguments yields equal objects for each of them. Within one call, two of a name
            # are a mistake of the plugin.
            offers += [offer for offer in fresh if all(offer.value != other.value for other in offers)]
        yield from offers


def _values(
    manager: pluggy.PluginManager, candidate: Candidate, plugin: object, hook: str, arguments: Mapping[str, Any]
) -> list[Any]:
    with loading(candidate.owner, f"hook {hook}", hook=hook):
        values = yielded(manager, plugin, hook, arguments)
    too_many = excess(values)
    if too_many is not None:
        raise failure(candidate, f"hook {hook} yielded {too_many}", hook=hook)
    return values


def yielded(manager: pluggy.PluginManager, plugin: object, hook: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Return what one plugin's implementation of a hook yields, up to one more than is legal. Its code runs here."""
    others = [other for other in manager.get_plugins() if other is not plugin]
    returned = manager.subset_hook_caller(hook, others)(**arguments)
    return [value for iterable in returned for value in islice(_iterable(iterable), MOST_OBJECTS + 1)]


def excess(values: Sequence[object]) -> str | None:
    """Return that there are too many objects, or None."""
    return f"more than {MOST_OBJECTS} objects" if len(values) > MOST_OBJECTS else None


def _iterable(value: Any) -> Any:
    # Text iterates too, into letters: a message about those would lead nowhere.
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"expected an iterable of descriptions, found {shown(value)}")
    return value


def _offer(candidate: Candidate, kind: OfferKind, value: Any) -> Offer:
    with loading(candidate.owner, f"checking what hook {kind.hook} yielded", hook=kind.hook):
        # Those of this repository are checked by its tests: that takes as long as all the rest of loading.
        unfit = _misfit(candidate.owner, kind, value) if candidate.owner.is_foreign else None
    if unfit is not None:
        raise failure(candidate, f"hook {kind.hook} yielded {unfit}", hook=kind.hook)
    return Offer(kind, guarded_rules(candidate.owner, value) if kind.type is OpSchema else value, _names(value))


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, types.ProfileSpec):
        # One board has a profile for each synth target.
        return (f"{value.synth_target}:{value.name}",)
    return (value.name, *getattr(value, "aliases", ()))


def _misfit(owner: Owner, kind: OfferKind, value: Any) -> str | None:
    wrong = misfit(kind.type, value)
    return definition_misfit(owner, value) if wrong is None and isinstance(value, OpSchema) else wrong
