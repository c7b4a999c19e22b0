"""Devices by name: what the synth targets that are installed know without a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from openinfer.arch import DeviceArch
from openinfer.diagnostics import did_you_mean
from openinfer.errors import SynthesisError
from openinfer.plugins.crossing import crossing, fault, wrong
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from openinfer.plugins.crossing import Owner
    from openinfer.plugins.environment import Environment
    from openinfer.plugins.types import ProfileSpec


def device_of(
    source: DeviceArch | Mapping[str, Any] | str | os.PathLike[str] | None, target: str | None, environment: Environment
) -> DeviceArch | None:
    """Return the device that a document, a file or the name of a profile describes; None for None.

    A name is a text without a path or an ending in it, such as ``host``. A file of such a name is ``./host``.

    Args:
        target: the synth target whose profiles count; with None those of all.

    Raises:
        SynthesisError: there is no profile of this name.
        SerializationError: the file or document is not that of a device.
        OSError: the file cannot be read.
    """
    if source is None or isinstance(source, DeviceArch):
        return source
    if not isinstance(source, str) or not _is_name(source):
        return DeviceArch.load(source)
    known = profiles(target, environment)
    if source not in known:
        hint = did_you_mean(source, known) or f"there are {', '.join(known) or 'none'}"
        message = f"unknown device {source!r} (for a file write './{source}'): {hint}"
        raise SynthesisError(message, code="unknown-target")
    return known[source]()


def profiles(target: str | None, environment: Environment) -> dict[str, Callable[[], DeviceArch]]:
    """Return the profiles of a synth target, or of all of them: by name, functions that return the device.

    Raises:
        SynthesisError: the target is unknown.
        PluginError: a plugin offers something else.
    """
    names = sorted(environment.targets) if target is None else [environment.target(target).name]
    found: dict[str, Callable[[], DeviceArch]] = {}
    for name in names:
        where = environment.target(name).profiles
        if where is None:
            continue
        owner = environment.owner("synth target", name)
        given: Any = load_object(where, owner)
        with crossing(owner, f"reading the profiles of synth target {name}"):
            known = dict(cast("Mapping[Any, Any]", given)) if isinstance(given, Mapping) else {}
            is_right = all(type(key) is str and callable(make) for key, make in known.items())
        if not isinstance(given, Mapping) or not is_right:
            raise fault(owner, f"profiles of synth target {name} {wrong(given, 'a mapping from names to functions')}")
        found = {**{key: partial(_made, owner, key, make) for key, make in known.items()}, **found}
    for key, spec in environment.profiles.items():
        if spec.synth_target in names:
            owner = environment.owner("profile", key)
            found.setdefault(spec.name, partial(_made, owner, spec.name, partial(_document, spec, owner)))
    return found


def _document(spec: ProfileSpec, owner: Owner) -> Any:
    """Return the document of a profile, whose module is imported here."""
    return load_object(spec.document, owner)()


def _made(owner: Owner, name: str, make: Callable[[], Any]) -> DeviceArch:
    """Return the device that a profile describes.

    Raises:
        PluginError: the profile raised something, or returned something else than the document of a device.
    """
    with crossing(owner, f"profile {name!r}"):
        document = make()
    if not isinstance(document, Mapping):
        raise fault(owner, f"profile {name!r} {wrong(document, 'the document of a device')}")
    # A missing part of a document is the plugin's error too.
    with crossing(owner, f"the document of profile {name!r}", passing=()):
        return DeviceArch.load(cast("Mapping[str, Any]", document))


def _is_name(text: str) -> bool:
    return bool(text) and not any(part in text for part in ("/", "\\", "."))
