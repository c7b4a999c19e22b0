"""Fields and names that a plugin uses and this core does not have: which version of core the plugin needs."""

from __future__ import annotations

import dataclasses
import operator
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING

from openinfer.diagnostics import did_you_mean
from openinfer.ops import schema
from openinfer.plugins import types
from openinfer.plugins.discovery import CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FIELD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_NAME = re.compile(
    r"cannot import name '(\w+)' from '(openinfer\.plugin)'|'(openinfer\.plugin)' has no attribute '(\w+)'"
)
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([<>=!~][^;)]*)?\)?")
"""Name and versions of a requirement without its marker."""

_CLAUSE = re.compile(r"(===|==|!=|<=|>=|<|>|~=)\s*v?(\d+(?:\.\d+)*)(\.\*)?(.*)")
_COMPARISONS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
    "===": operator.eq,
    "!=": operator.ne,
}


def newer_core(error: BaseException | None, distribution: str) -> str | None:
    """Return that a plugin needs another core, if it failed for a field or name that this one does not have.

    Args:
        error: what the plugin raised while it loaded.
        distribution: that of the plugin; its metadata say which core it requires.
    """
    missing = _missing_field(error) or _missing_name(error)
    if missing is None:
        return None
    absence, name, present = missing
    near = did_you_mean(name, present)
    if near is not None:
        return f"{absence}: {near}"
    installed, required = version(CORE), _required(distribution)
    if required and not _admits(required, installed):
        return f"{absence} in {CORE} {installed}: needs {CORE} {required}"
    return f"{absence} in {CORE} {installed}: needs {CORE} > {installed}, unless {name!r} is a mistake"


def _missing_field(error: BaseException | None) -> tuple[str, str, Iterable[str]] | None:
    refusal = _FIELD.search(str(error)) if isinstance(error, TypeError) else None
    description = refusal and _descriptions().get(refusal[1])
    if not refusal or not description:
        return None
    fields = [field.name for field in dataclasses.fields(description)]
    return f"{refusal[1]} has no field {refusal[2]!r}", refusal[2], fields


def _missing_name(error: BaseException | None) -> tuple[str, str, Iterable[str]] | None:
    refusal = _NAME.search(str(error)) if isinstance(error, ImportError | AttributeError) else None
    if not refusal:
        return None
    name = refusal[1] or refusal[4]
    # It is imported, since the plugin tried it; an import here would be one from above this layer.
    exported: list[str] = sys.modules["openinfer.plugin"].__all__
    return f"openinfer.plugin has no {name!r}", name, exported


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
    versions = ((match[2] or "").strip() for match in matches if match and _normalised(match[1]) == CORE)
    return next(versions, "")


def _normalised(name: str) -> str:
    """Return the name of a distribution as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _admits(required: str, installed: str) -> bool:
    """Return whether a version satisfies all clauses, by their numbers; one that cannot be read is not satisfied."""
    return all(_satisfies(_release(installed), clause.strip()) for clause in required.split(",") if clause.strip())


def _satisfies(installed: tuple[int, ...], clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    if not match:
        return False
    wanted = _release(match[2])
    if match[3] or match[1] == "~=":
        prefix = wanted if match[3] else wanted[:-1]
        is_same = _padded(installed, len(prefix))[: len(prefix)] == prefix
        if match[1] != "~=":
            return is_same == (match[1] != "!=")
        if not is_same:
            return False
    compare = _COMPARISONS.get(match[1], operator.ge)
    length = max(len(wanted), len(installed))
    return compare(_padded(installed, length), _padded(wanted, length))


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(number) for number in match[0].split(".")) if match else ()


def _padded(release: tuple[int, ...], length: int) -> tuple[int, ...]:
    return release + (0,) * (length - len(release))
