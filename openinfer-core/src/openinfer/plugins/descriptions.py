"""Whether an object is the description that a hook should yield, down to the last field.

Dataclasses do not check what they are made of, and a wrong field would surface far from the plugin. Fields are compared
with what their annotations say.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any, cast

from openinfer.dtypes import DType, Kind
from openinfer.ops import schema
from openinfer.ops.counting import COUNT
from openinfer.plugins import types
from openinfer.plugins.crossing import shown

MOST_BITS = 128
"""Bits of the largest integer in a description: more than that cannot even be shown."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def misfit(expected: type[Any], value: Any) -> str | None:
    """Return what is wrong with an object that should be a description of type ``expected``, or None.

    A subclass is wrong too: its attributes could be anything.
    """
    if type(value) is not expected:
        return f"{shown(value)} ({type(value).__name__}), expected {expected.__name__}"
    for spec in dataclasses.fields(expected):
        found = getattr(value, spec.name)
        if _fitting(str(spec.type))(found):
            wrong = _form_misfit(spec.name, found)
        else:
            expects = "a function" if spec.type in _FUNCTIONS else spec.type
            wrong = next(_parts_misfit(found), None) or f"{spec.name} is {shown(found)}, expected {expects}"
        if wrong is not None:
            return f"{expected.__name__} {shown(getattr(value, 'name', ''))}: {wrong}"
    if expected is schema.OpSchema and not value.outputs:
        return f"OpSchema {value.name!r}: outputs is (), expected at least one"
    if expected in (types.PassSpec, types.ObserverSpec):
        names = [option.name for option in value.options]
        if len(names) > len({*names}):
            return f"{expected.__name__} {value.name!r}: two options share a name: {', '.join(names)}"
    return _counted_misfit(value) if expected is schema.OpSchema and value.counted else None


def _counted_misfit(op: schema.OpSchema) -> str | None:
    """Return what is wrong with the names of counted results, or None."""
    legal = [name for place, name in enumerate(op.outputs) if place != COUNT]
    if len(op.outputs) > COUNT and set(op.counted) <= set(legal):
        return None
    return f"OpSchema {op.name!r}: counted is {op.counted}, expected outputs that the second one counts: {op.outputs}"


def _parts_misfit(found: object) -> Iterator[str]:
    """Yield what is wrong with the descriptions that a field consists of."""
    for part in cast("tuple[object, ...]", found) if type(found) is tuple else (found,):
        if type(part).__name__ in _DESCRIPTIONS and type(part) is _DESCRIPTIONS[type(part).__name__]:
            wrong = misfit(type(part), part)
            if wrong is not None:
                yield wrong


def _is_text(found: object) -> bool:
    """Whether an object is text that can be written to a file: lone halves of surrogate pairs cannot."""
    return type(found) is str and (found.isascii() or not any("\ud800" <= one <= "\udfff" for one in found))


def _is_integer(found: object) -> bool:
    return type(found) is int and found.bit_length() <= MOST_BITS


def _is_number(found: object) -> bool:
    return _is_integer(found) or (type(found) is float and not math.isnan(found))


def _is_setting(found: object) -> bool:
    if type(found) is tuple:
        return all(map(_is_setting, cast("tuple[object, ...]", found)))
    return found is None or type(found) in (bool, float, DType) or _is_integer(found) or _is_text(found)


_FUNCTIONS = ("InferTypes", "BuildScalar", "BuildRefusal", "ReducedAxes", "BuildFold", "Decompose", "DefineStages")

_PLAIN: Mapping[str, Callable[[object], bool]] = {
    "Any": lambda _: True,
    "None": lambda found: found is None,
    "str": _is_text,
    "int": _is_integer,
    "float": _is_number,
    "bool": lambda found: type(found) is bool,
    "bytes": lambda found: type(found) is bytes,
    "Kind": lambda found: type(found) is Kind,
    "SettingType": lambda found: type(found) is schema.SettingType,
    "Required": lambda found: type(found) is schema.Required,
    "SettingValue": _is_setting,
    **dict.fromkeys(_FUNCTIONS, callable),
}

_DEFINITIONS = (schema.Elementwise, schema.Reduction, schema.Composite, schema.Compute, schema.Loops, schema.Primitive)

_DESCRIPTIONS: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        *_DEFINITIONS,
        schema.Refusal,
        schema.InputSpec,
        schema.SettingSpec,
        schema.OpExample,
        schema.Operand,
        schema.StoredScales,
        types.Fallback,
        types.OptionSpec,
    )
}


@cache
def _fitting(written: str) -> Callable[[object], bool]:
    """Return the test whether a value is what an annotation says."""
    alternatives = _split(written, "|")
    if len(alternatives) > 1:
        parts = [_fitting(each) for each in alternatives]
        return lambda found: any(fits(found) for fits in parts)
    name, bracket, rest = written.partition("[")
    inside = [_fitting(part) for part in _split(rest.removesuffix("]"), ",")] if bracket else []
    if name == "tuple":
        return partial(_is_row, tuple, inside[0])
    if name == "frozenset":
        return partial(_is_row, frozenset, inside[0])
    if name == "Mapping":
        return partial(_is_table, inside[0], inside[1])
    if name == "Callable":
        return callable
    if name == "Definition":
        return lambda found: any(misfit(each, found) is None for each in _DEFINITIONS if type(found) is each)
    if name in _DESCRIPTIONS:
        return lambda found: misfit(_DESCRIPTIONS[name], found) is None
    return _PLAIN.get(name, _PLAIN["Any"])


def _is_row(kind: type[Any], fits: Callable[[object], bool], found: object) -> bool:
    return type(found) is kind and all(map(fits, cast("Iterable[object]", found)))


def _is_table(key: Callable[[object], bool], value: Callable[[object], bool], found: object) -> bool:
    entries = cast("Mapping[object, object]", found).items() if isinstance(found, Mapping) else None
    return entries is not None and all(key(name) and value(part) for name, part in entries)


def _split(written: str, separator: str) -> list[str]:
    """Return the parts of an annotation, of which none ends inside brackets."""
    parts, depth = [""], 0
    for character in written:
        depth += (character == "[") - (character == "]")
        if character == separator and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _is_name(found: object) -> bool:
    return type(found) is str and _NAME.fullmatch(found) is not None


def _are_names(found: object) -> bool:
    return type(found) is tuple and all(map(_is_name, cast("tuple[object, ...]", found)))


def _is_reference(found: object) -> bool:
    return type(found) is str and _REFERENCE.fullmatch(found) is not None


def _are_ranges(found: object) -> bool:
    if not isinstance(found, Mapping):
        return False
    return all(map(_is_range, cast("Mapping[object, object]", found).values()))


def _is_range(found: object) -> bool:
    if not isinstance(found, tuple) or len(limits := cast("tuple[object, ...]", found)) != 2:
        return False
    low, high = limits
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= high


_FORMS: dict[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_name, "an identifier"),
    "device": (_is_name, "an identifier"),
    "synth_target": (_is_name, "an identifier"),
    "aliases": (_are_names, "a tuple of identifiers"),
    "stage": (lambda found: found in types.PASS_STAGES, f"one of {', '.join(types.PASS_STAGES)}"),
    "domain": (_are_ranges, "a mapping from names of inputs to (least, greatest)"),
    **dict.fromkeys(
        ("backend", "target", "run", "open", "load", "runner", "observer", "command", "document"),
        (_is_reference, "'module:attribute'"),
    ),
    **dict.fromkeys(
        ("save", "codes", "oracle", "original", "sniff", "functions", "profiles", "probe"),
        (lambda found: found is None or _is_reference(found), "'module:attribute' or None"),
    ),
}
"""What fields have to look like beyond their types, by name."""


def _form_misfit(name: str, found: object) -> str | None:
    has_form, expected = _FORMS.get(name, (None, ""))
    if has_form is None or type(found) not in (str, tuple, int, float, dict) or has_form(found):
        return None
    return f"{name} is {shown(found)}, expected {expected}"
