"""Options of passes and observers: the values that users set, checked against what plugins declare."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from openinfer.diagnostics import near_or_known
from openinfer.errors import PluginError
from openinfer.plugins.switches import FLAGS, OPTIONS, PARTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.plugins.switches import PartOption
    from openinfer.plugins.types import OptionSpec, OptionValue

_KINDS: Mapping[type[Any], str] = {bool: "0 or 1", int: "an integer", float: "a number", str: "a text"}


def with_options(
    offered: Mapping[str, Mapping[str, Any]], options: tuple[PartOption, ...]
) -> dict[str, Mapping[str, Any]]:
    """Return what plugins offer, by fields of `Environment`, with the values of options in place of their defaults.

    Raises:
        PluginError: there is no pass, observer or option of a name, or a value is of another type.
    """
    parts = {name: field for field in PARTS for name in offered[field]}
    changed = {field: dict(objects) for field, objects in offered.items() if field in PARTS}
    for option in options:
        if option.part not in parts:
            hint = near_or_known(option.part, sorted(parts), "the passes and observers")
            message = f"{OPTIONS} or --plugins-option names {option.part!r}, which is not a pass or observer: {hint}"
            raise PluginError(message)
        objects = changed[parts[option.part]]
        objects[option.part] = _with_option(objects[option.part], option)
    return {**offered, **{field: MappingProxyType(objects) for field, objects in changed.items()}}


def _with_option(spec: Any, option: PartOption) -> Any:
    declared: dict[str, OptionSpec] = {each.name: each for each in spec.options}
    if option.name not in declared:
        hint = near_or_known(option.name, sorted(declared), "its options") if declared else "it has none"
        raise PluginError(f"{spec.name!r} has no option {option.name!r}: {hint}")
    default = declared[option.name]
    declared[option.name] = replace(
        default, value=_converted(f"{spec.name}.{option.name}", default.value, option.value)
    )
    return replace(spec, options=tuple(declared.values()))


def _converted(name: str, default: OptionValue, value: OptionValue) -> OptionValue:
    """Return a value in the type of the default; text, as command lines have it, is read."""
    kind = type(default)
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(value, str):
        try:
            return FLAGS[value.strip().lower()] if kind is bool else kind(value)
        except (KeyError, ValueError):
            pass
    raise PluginError(f"option {name}: expected {_KINDS[kind]}, found {value!r}")
