"""What one plugin offers: the objects of its catalogue hooks, checked one by one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from openinfer.dtypes import DType, Kind
from openinfer.ops.schema import Composite, Compute, Elementwise, OpSchema, Primitive, Reduction
from openinfer.plugins import types
from openinfer.plugins.definitions import definition_misfit
from openinfer.plugins.discovery import CORE
from openinfer.plugins.registration import failure, guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pluggy

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
    OfferKind(hook="openinfer_dtypes", field="dtypes", noun="dtype", type=DType),
    OfferKind(hook="openinfer_ops", field="ops", noun="op", type=OpSchema),
    OfferKind(hook="openinfer_devices", field="devices", noun="device", type=types.DeviceSpec),
    OfferKind(hook="openinfer_synth_targets", field="targets", noun="synth target", type=types.SynthTargetSpec),
    OfferKind(
        hook="openinfer_passes",
        field="passes",
        noun="pass",
        type=types.PassSpec,
        arguments=tuple({"stage": stage} for stage in types.PASS_STAGES),
    ),
    OfferKind(hook="openinfer_model_formats", field="model_formats", noun="model format", type=types.ModelFormatSpec),
    OfferKind(hook="openinfer_attributes", field="attributes", noun="attribute", type=types.AttributeSpec),
    OfferKind(hook="openinfer_runners", field="runners", noun="runner", type=types.RunnerSpec),
    OfferKind(hook="openinfer_observers", field="observers", noun="observer", type=types.ObserverSpec),
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


def offers_of(manager: pluggy.PluginManager, candidate: Candidate, plugin: object) -> list[Offer]:
    """Return everything that a registered plugin offers.

    Raises:
        PluginError: a hook raised, or yielded something else than its description.
    """
    return [
        _offer(candidate, kind, value)
        for kind in KINDS
        for arguments in kind.arguments
        for value in results(manager, candidate, plugin, kind.hook, arguments)
    ]


def results(
    manager: pluggy.PluginManager, candidate: Candidate, plugin: object, hook: str, arguments: Mapping[str, Any]
) -> Iterator[Any]:
    """Yield what one plugin's implementation of a hook yields; its code runs inside the guard.

    Raises:
        PluginError: it raised, returned something that is no iterable, or does not end.
    """
    others = [other for other in manager.get_plugins() if other is not plugin]
    with guarded(candidate, f"hook {hook}", hook=hook):
        returned = manager.subset_hook_caller(hook, others)(**arguments)
        values = [value for iterable in returned for value in islice(_iterable(iterable), MOST_OBJECTS + 1)]
    if len(values) > MOST_OBJECTS:
        raise failure(candidate, f"hook {hook} yielded more than {MOST_OBJECTS} objects", hook=hook)
    yield from values


def _iterable(value: Any) -> Any:
    # Text iterates too, into letters: a message about those would lead nowhere.
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        raise TypeError(f"expected an iterable of descriptions, found {value!r:.80}")
    return value


def _offer(candidate: Candidate, kind: OfferKind, value: Any) -> Offer:
    with guarded(candidate, f"looking at what hook {kind.hook} yielded", hook=kind.hook):
        wrong = misfit(kind.type, value) or _definition_misfit(candidate, value)
    if wrong is not None:
        raise failure(candidate, f"hook {kind.hook} yielded {wrong}", hook=kind.hook)
    return Offer(kind, value, (value.name, *getattr(value, "aliases", ())))


def _definition_misfit(candidate: Candidate, value: object) -> str | None:
    # The definitions of core are tested with it: what is always there is not checked again at each start.
    if not isinstance(value, OpSchema) or candidate.distribution == CORE:
        return None
    return definition_misfit(value)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_PLAIN_TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
    "int | None": (int, type(None)),
    "bool": (bool,),
    "float": (float, int),
    "bytes": (bytes,),
    "float | None": (float, int, type(None)),
    "frozenset[str]": (frozenset,),
    "frozenset[str] | None": (frozenset, type(None)),
    "Fallback | None": (types.Fallback, type(None)),
    "Kind": (Kind,),
    "Definition": (Elementwise, Reduction, Composite, Compute, Primitive),
}


def _is_name(found: object) -> bool:
    return isinstance(found, str) and _NAME.fullmatch(found) is not None


def _are_names(found: object) -> bool:
    return isinstance(found, tuple) and all(map(_is_name, cast("tuple[object, ...]", found)))


def _is_reference(found: object) -> bool:
    return isinstance(found, str) and _REFERENCE.fullmatch(found) is not None


def _is_reference_or_none(found: object) -> bool:
    return found is None or _is_reference(found)


def _are_ranges(found: object) -> bool:
    if not isinstance(found, Mapping):
        return False
    ranges = cast("Mapping[object, object]", found)
    return all(isinstance(name, str) and _is_range(limits) for name, limits in ranges.items())


def _is_range(found: object) -> bool:
    if not isinstance(found, tuple) or len(limits := cast("tuple[object, ...]", found)) != 2:
        return False
    low, high = limits
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= high


_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_name, "an identifier"),
    "device": (_is_name, "an identifier"),
    "aliases": (_are_names, "a tuple of identifiers"),
    "infer": (callable, "a function"),
    "oracle": (_is_reference_or_none, "'module:attribute'"),
    "domain": (_are_ranges, "a mapping from names of inputs to (least, greatest)"),
    **dict.fromkeys(
        ("probe", "backend", "target", "run", "open", "runner", "observer", "command"),
        (_is_reference, "'module:attribute'"),
    ),
}


def misfit(expected: type[Any], value: Any) -> str | None:
    """Return what is wrong with an object that should be a description of type ``expected``, or None.

    Dataclasses do not check what they are made of, and a wrong field would surface far from the plugin.
    """
    if not isinstance(value, expected):
        return f"{value!r:.80} ({type(value).__name__}), expected {expected.__name__}"
    for spec in dataclasses.fields(expected):
        wrong = _field_misfit(spec, getattr(value, spec.name))
        if wrong is not None:
            return f"{expected.__name__} {getattr(value, 'name', '')!r:.80}: {wrong}"
    return None


def _field_misfit(spec: dataclasses.Field[Any], found: object) -> str | None:
    written = str(spec.type)
    legal = (tuple,) if written.startswith("tuple[") else _PLAIN_TYPES.get(written)
    if legal is not None and not isinstance(found, legal):
        return f"{spec.name} is {found!r:.80}, expected {written}"
    if isinstance(found, types.Fallback):
        return misfit(types.Fallback, found)
    has_form, expected = _FORMS.get(spec.name, (None, ""))
    return f"{spec.name} is {found!r:.80}, expected {expected}" if has_form and not has_form(found) else None
