"""Asks whether a device or target can be used here, whatever its probe does."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from openinfer.errors import OpenInferError
from openinfer.plugins.crossing import UNKNOWN, crossing, raised, wrong
from openinfer.plugins.types import Availability, load_object

if TYPE_CHECKING:
    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.types import DeviceSpec, SynthTargetSpec


def probe(spec: DeviceSpec | SynthTargetSpec, owner: Owner = UNKNOWN) -> Availability:
    """Return whether a device or target is available, and what it is or what to do; a probe that raises is reported so.

    A target without a probe is available.
    """
    path = spec.probe
    if path is None:
        return Availability(available=True, detail="")
    try:
        with crossing(owner, f"probe {path}"):
            answer: object = load_object(path, owner)()
    except OpenInferError as error:
        detail = f"its probe {path} {raised(error.__cause__ or error)}; report this to its author"
        return Availability(available=False, detail=detail)
    if type(answer) is not Availability or type(answer.available) is not bool or type(answer.detail) is not str:
        detail = f"its probe {path} {wrong(answer, 'an Availability of a bool and a str')}; report this"
        return Availability(available=False, detail=detail)
    if not _are_facts(answer.hardware):
        detail = f"its probe {path} returned hardware that is not facts by name; report this"
        return Availability(available=False, detail=detail)
    return answer


def _are_facts(hardware: object) -> bool:
    """Return whether this is a mapping from names to mappings from names to bools, integers and texts."""
    return _is_named(hardware) and all(
        _is_named(facts) and all(isinstance(fact, bool | int | str) for fact in facts.values())
        for facts in hardware.values()
    )


def _is_named(facts: object) -> TypeGuard[dict[str, object]]:
    return isinstance(facts, dict) and all(isinstance(name, str) for name in cast("dict[object, object]", facts))
