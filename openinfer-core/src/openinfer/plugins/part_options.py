"""Options of passes and observers: the values that users set, checked against what plugins declare."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import near_or_known
from openinfer.errors import PluginError
from openinfer.plugins.crossing import PluginWarning
from openinfer.plugins.switches import FLAGS, OPTIONS, PARTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.plugins.switches import PartOption
    from openinfer.plugins.types import OptionValue

_KINDS: Mapping[type[Any], str] = {bool: "0 or 1", int: "an integer", float: "a number", str: "a text"}


def with_options(
    offered: Mapping[str, Mapping[str, Any]], options: Iterable[PartOption], *, strict: bool
) -> dict[str, Mapping[str, Any]]:
    """Return what plugins offer, by fields of `Environment`, with the values of options in place of their defaults.

    Where a pass and an observer share a name, an option belongs to those of them that declare it. What is wrong with an
    option, such as the name of a part of a plugin that did not load, is warned of: it must not keep `openinfer plugins`
    from saying why.

    Raises:
        PluginError: ``strict``, and a pass, observer or option is unknown, or a value is of another type.
    """
    changed = {field: dict(offered[field]) for field in PARTS}
    for option in options:
        try:
            _set(changed, option)
        except PluginError as error:
            if strict:
                raise
            warnings.warn(f"{error}; it has no effect", PluginWarning, stacklevel=2)
    return {**offered, **{field: MappingProxyType(parts) for field, parts in changed.items()}}


def _set(parts_of: Mapping[str, dict[str, Any]], option: PartOption) -> None:
    owners = [parts for parts in parts_of.values() if option.part in parts]
    if not owners:
        names = sorted({name for parts in parts_of.values() for name in parts})
        hint = near_or_known(option.part, names, "the passes and observers")
        message = f"{OPTIONS} or --plugins-option names {option.part!r}, which is not a pass or observer: {hint}"
        raise PluginError(message)
    declared = [spec.name for parts in owners for spec in parts[option.part].options]
    if option.name not in declared:
        hint = near_or_known(option.name, sorted(declared), "its options") if declared else "it has none"
        raise PluginError(f"{option.part!r} has no option {option.name!r}: {hint}")
    for parts in owners:
        parts[option.part] = _with_value(parts[option.part], option)


def _with_value(part: Any, option: PartOption) -> Any:
    """Return a pass or observer with a value of the option, if it declares that."""
    label = f"{option.part}.{option.name}"
    options = (
        replace(spec, value=_converted(label, spec.value, option.value)) if spec.name == option.name else spec
        for spec in part.options
    )
    return replace(part, options=tuple(options))


def _converted(name: str, default: OptionValue, value: OptionValue) -> OptionValue:
    """Return a value in the type of the default; text, as command lines have it, is read."""
    kind = type(default)
    if type(value) is kind:
        return value
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if isinstance(value, str):
        try:
            return FLAGS[value.strip().lower()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            pass
    raise PluginError(f"option {name}: expected {_KINDS[kind]}, found {value!r}")
