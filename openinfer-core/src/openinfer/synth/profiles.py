"""Devices by name: what the synth targets that are installed know without a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from openinfer.arch import DeviceArch
from openinfer.diagnostics import did_you_mean
from openinfer.errors import SynthesisError
from openinfer.plugins.crossing import crossing, fault, wrong
from openinfer.plugins.types import load_object

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from openinfer.plugins.environment import Environment


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
        message = f"unknown device {source!r} (a file of that name is './{source}'): {hint}"
        raise SynthesisError(message, code="unknown-target")
    return DeviceArch.load(known[source]())


def profiles(target: str | None, environment: Environment) -> dict[str, Callable[[], Mapping[str, Any]]]:
    """Return the profiles of a synth target, or of all of them: by name, functions that return the document.

    Raises:
        SynthesisError: the target is unknown.
        PluginError: a plugin offers something else.
    """
    names = sorted(environment.targets) if target is None else [environment.target(target).name]
    found: dict[str, Callable[[], Mapping[str, Any]]] = {}
    for name in names:
        where = environment.target(name).profiles
        if where is None:
            continue
        owner = environment.owner("synth target", name)
        given: Any = load_object(where, owner)
        with crossing(owner, f"reading the profiles of synth target {name}"):
            known = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
            if not isinstance(given, Mapping) or not all(callable(make) for make in known.values()):
                raise fault(owner, f"profiles of synth target {name} {wrong(given, 'a mapping to functions')}")
            found = {**known, **found}
    return found


def _is_name(text: str) -> bool:
    return bool(text) and not any(part in text for part in ("/", "\\", "."))
