"""Whether data that a plugin returns are made of what their annotations say, down to the last part.

Dataclasses do not check what they are made of, and a wrong part would surface far from the plugin that made it.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from openinfer.plugins.crossing import shown
from openinfer.plugins.descriptions import MOST_BITS

_Waiting: TypeAlias = list[tuple[object, Any, str]]
"""Values with what their annotations say, and where they are."""

_NUMBERS: Mapping[Any, tuple[type[Any], ...]] = {int: (int,), float: (int, float)}


class Structure:
    """The classes that some data consist of.

    Args:
        parts: dataclasses, each of which is checked field by field wherever it occurs. An object of another class has
            to be of exactly that class and is not checked further.
        names: what other names in their annotations stand for, where their modules import them for checkers only.
    """

    def __init__(self, *parts: type[Any], names: Mapping[str, Any]) -> None:
        self._parts, self._names = parts, names

    @cached_property
    def _hints(self) -> Mapping[type[Any], Mapping[str, Any]]:
        """What the annotations of the fields say, by part. Working it out takes too long for every start."""
        known = {**{part.__name__: part for part in self._parts}, **self._names}
        return {part: _fields(part, known) for part in self._parts}

    def misfit(self, value: object, expected: Any) -> str | None:
        """Return what is wrong with a value that should be what an annotation says, or None.

        A subclass is wrong too: its attributes could be anything.
        """
        # Parts may be nested deeply, and be shared.
        waiting: _Waiting = [(value, expected, "it")]
        seen: set[int] = set()
        while waiting:
            found, kind, where = waiting.pop()
            if not _is(found, kind, where, waiting):
                return f"{where} is {shown(found)} ({type(found).__name__}), expected {_text(kind)}"
            if id(found) in seen or type(found) not in self._hints:
                continue
            seen.add(id(found))
            owner = type(found).__name__
            waiting += [(getattr(found, f), hint, f"{f} of {owner}") for f, hint in self._hints[type(found)].items()]
        return None


def _fields(part: type[Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the annotations of the fields of a dataclass say, by name."""
    hints = get_type_hints(part, localns=dict(known))
    return {field.name: hints[field.name] for field in dataclasses.fields(part)}


def _is(found: object, kind: Any, where: str, waiting: _Waiting) -> bool:
    """Return whether a value is of a kind, apart from what it consists of, which is added to ``waiting``."""
    origin, inside = get_origin(kind), get_args(kind)
    if kind in (Any, object):
        return True
    if origin in (Union, types.UnionType):
        return any(_is(found, each, where, waiting) for each in inside)
    if origin is tuple:
        return _is_row(found, inside, where, waiting)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _is_table(found, inside, where, waiting)
    if origin is Callable or kind is Callable:
        return callable(found)
    if kind in _NUMBERS:
        return type(found) in _NUMBERS[kind] and not (type(found) is int and found.bit_length() > MOST_BITS)
    return type(found) is kind


def _is_row(found: object, inside: tuple[Any, ...], where: str, waiting: _Waiting) -> bool:
    if type(found) is not tuple:
        return False
    row = cast("tuple[object, ...]", found)
    kinds = (inside[0],) * len(row) if ... in inside else inside
    waiting += [(value, kind, f"an entry of {where}") for value, kind in zip(row, kinds, strict=False)]
    return len(kinds) == len(row)


def _is_table(found: object, inside: tuple[Any, ...], where: str, waiting: _Waiting) -> bool:
    if type(found) not in (dict, types.MappingProxyType):
        return False
    for key, value in cast("Mapping[object, object]", found).items():
        waiting += [(key, inside[0], f"a key of {where}"), (value, inside[1], f"an entry of {where}")]
    return True


def _text(kind: Any) -> str:
    """Return an annotation without the modules of its classes."""
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_text, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"tuple[{', '.join('...' if each is ... else _text(each) for each in get_args(kind))}]"
    return "None" if kind is type(None) else getattr(kind, "__name__", str(kind))
