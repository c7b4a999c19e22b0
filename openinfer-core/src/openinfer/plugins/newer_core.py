"""Fields and names that a plugin uses and this core does not have: which version of core the plugin needs."""

from __future__ import annotations

import dataclasses
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.ops import schema
from openinfer.plugins import types
from openinfer.plugins.discovery import CORE

if TYPE_CHECKING:
    from collections.abc import Iterable

_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_NAME = re.compile(
    r"cannot import name '(\w+)' from '(openinfer\.plugin)'|'(openinfer\.plugin)' has no attribute '(\w+)'"
)
_REQUIREMENT = re.compile(rf"{CORE}\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)", re.IGNORECASE)


def newer_core(error: BaseException | None, distribution: str) -> str | None:
    """Return that a plugin needs another core, if it failed for a field or name that this one does not have.

    Args:
        error: what the plugin raised while it loaded.
        distribution: that of the plugin; its metadata say which core it requires.
    """
    missing = _missing_field(error) or _missing_name(error)
    if missing is None:
        return None
    what, name, known = missing
    near = did_you_mean(name, known)
    if near is not None:
        return f"{what}: {near}"
    required = _required(distribution)
    needed = f"needs {CORE} {required}" if required else f"needs {CORE} > {version(CORE)}, unless {name!r} is a mistake"
    return f"{what} in {CORE} {version(CORE)}: {needed}"


def _missing_field(error: BaseException | None) -> tuple[str, str, Iterable[str]] | None:
    found = _FIELD.search(str(error)) if isinstance(error, TypeError) else None
    described = found and _descriptions().get(found[1])
    if not found or not described:
        return None
    return f"{found[1]} has no field {found[2]!r}", found[2], [field.name for field in dataclasses.fields(described)]


def _missing_name(error: BaseException | None) -> tuple[str, str, Iterable[str]] | None:
    found = _NAME.search(str(error)) if isinstance(error, ImportError | AttributeError) else None
    if not found:
        return None
    name = found[1] or found[4]
    # It is imported, since the plugin tried it; an import here would be one from above this layer.
    known: list[str] = sys.modules["openinfer.plugin"].__all__
    return f"openinfer.plugin has no {name!r}", name, known


def _descriptions() -> dict[str, type]:
    """Return the descriptions that plugins make, by name."""
    values = [*vars(types).items(), *vars(schema).items()]
    return {name: value for name, value in values if isinstance(value, type) and dataclasses.is_dataclass(value)}


def _required(distribution: str) -> str:
    """Return the versions of core that a distribution requires, such as ``>=0.3``; empty where it names none."""
    try:
        requirements = requires(distribution) or []
    except (PackageNotFoundError, ValueError):
        return ""
    matches = (_REQUIREMENT.fullmatch(text.partition(";")[0].strip()) for text in requirements)
    return next((match[1].strip() for match in matches if match), "")
