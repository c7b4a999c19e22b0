"""Ways in which the code of a plugin can misbehave, and a plugin that does so in one spot."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from openinfer.plugins import types
from openinfer.plugins.environment import Environment
from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment

NAME = "theirs"
PARTS = "their_parts"
"""Module in which the heavy parts of the plugin are."""


class Rude(BaseException):
    """Not an `Exception`."""


class Unshowable:
    """Nothing can be asked of it."""

    def __repr__(self) -> str:
        raise Rude

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        raise Rude


class SilentError(Exception):
    """An exception whose text raises."""

    def __str__(self) -> str:
        raise Rude


def half_way(*_: Any, **__: Any) -> Iterator[object]:
    """Yield something and raise."""
    yield None
    raise KeyError("half-way")


def raising(error: BaseException) -> Callable[..., Any]:
    def misbehave(*_: Any, **__: Any) -> Any:
        raise error

    return misbehave


def returning(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


MISBEHAVIOURS: Mapping[str, Callable[..., Any]] = {
    "raises": raising(KeyError("oops")),
    "raises no exception": raising(Rude("oops")),
    "exits with 0": raising(SystemExit(0)),
    "raises what cannot be shown": raising(SilentError()),
    "returns None": returning(None),
    "returns text": returning("oops"),
    "returns what cannot be shown": returning(Unshowable()),
    "returns a huge number": returning(10**5000),
    "raises half-way": half_way,
}

VALUES = tuple(name for name in MISBEHAVIOURS if name.startswith("returns"))

Act = Callable[..., Any]


@dataclass(frozen=True)
class Spot:
    """Something of a plugin that may misbehave.

    Attributes:
        plugin: makes the plugin, of which ``act`` is called there.
        use: leads to the call.
        legal: misbehaviours that are none here.
        is_value: whether it is a value, which cannot raise.
    """

    plugin: Callable[[Act], ModuleType]
    use: Callable[[Environment, Path], object]
    legal: tuple[str, ...] = ()
    is_value: bool = False

    @property
    def misbehaviours(self) -> tuple[str, ...]:
        return VALUES if self.is_value else tuple(MISBEHAVIOURS)


def value_spot(
    plugin: Callable[[Any], ModuleType], use: Callable[[Environment, Path], object], legal: tuple[str, ...] = ()
) -> Spot:
    """Return the spot of a value; ``plugin`` makes the plugin that has it."""
    return Spot(lambda act: plugin(act()), use, legal, is_value=True)


def module(**hooks: Callable[..., Any]) -> ModuleType:
    """Return a plugin with hooks, by their names without prefix."""
    made = ModuleType(NAME)
    made.OPENINFER_API = types.API_VERSION
    for name, function in hooks.items():
        function.__name__ = f"openinfer_{name}"
        setattr(made, function.__name__, hookimpl(function))
    return made


def parts(**attributes: object) -> None:
    """Set the heavy parts of the plugin."""
    made = ModuleType(PARTS)
    vars(made).update(attributes)
    sys.modules[PARTS] = made


def environment_with(plugin: object, **options: Any) -> Environment:
    """Return what the packages of this repository and a plugin offer."""
    return load_environment(allow=("oinf", "cpu", "c"), extra=[(NAME, plugin)], **options)


def act_in(spot: Spot, act: Act) -> Environment:
    """Return an environment in which a plugin misbehaves at a spot."""
    return environment_with(spot.plugin(act))


def overriding(
    base: type[Any], method: str, make: Callable[[Act], Any] = lambda act: act
) -> Callable[[Act], type[Any]]:
    """Return what makes a class of which one method misbehaves."""
    return lambda act: type("Theirs", (base,), {method: make(act)})


NO_RESULT = (*(name for name in MISBEHAVIOURS if name.startswith("returns")), "raises half-way")
"""Misbehaviour of calls whose return value is ignored."""


CALLED_IN_STEPS = (
    "returns None",
    "returns text",
    "returns what cannot be shown",
    "returns a huge number",
    "raises half-way",
)
"""The return value of a bound call is ignored."""
