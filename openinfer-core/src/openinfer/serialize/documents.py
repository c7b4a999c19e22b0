"""JSON text to plain values: strict where Python's reader is lenient, with every finding placed by a JSON pointer."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from openinfer.diagnostics import Diagnostic, Severity, Source, summary
from openinfer.errors import SerializationError
from openinfer.regular_files import TEXT_NBYTES, read_regular

if TYPE_CHECKING:
    from openinfer.serialize.forms import Problem

_STRING_OR_NON_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN', re.DOTALL)


class RepeatedKeys(dict[str, Any]):
    """An object in which keys occurred twice; ``repeated`` lists them."""

    repeated: tuple[str, ...] = ()


def read_document(source: Mapping[str, Any] | str | os.PathLike[str], what: str) -> Any:
    """Return the JSON value of a document, JSON text (a ``str``) or file (a path object).

    Raises:
        SerializationError: it is not JSON; ``NaN`` and ``Infinity`` tokens and repeated keys are refused.
        OSError: the file cannot be read.
    """
    return source if isinstance(source, Mapping) else parse_json(*read_text(source, what))


def read_text(source: str | os.PathLike[str], what: str, limit: int = TEXT_NBYTES) -> tuple[str, str]:
    """Return JSON text (a ``str``) or that of a file (a path object), with the name that messages use.

    Raises:
        SerializationError: the file is not UTF-8, or ``source`` is neither.
        OSError: the file cannot be read, is not a regular file, or has more than ``limit`` bytes.
    """
    if isinstance(source, str):
        return source, what
    if not isinstance(source, os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        fail(f"{what}: expected a JSON value, JSON text or a path, found {type(source).__name__}", "wrong-type")
    name, data = os.fspath(source), read_regular(source, limit)
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        fail(f"{name}: not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}", "not-json")


def parse_json(text: str, name: str) -> Any:
    """Return the value of JSON text.

    Raises:
        SerializationError: ``not-json``, ``non-finite``, ``duplicate-key``.
    """
    marked: list[RepeatedKeys] = []
    try:
        value = json.loads(
            text,
            object_pairs_hook=lambda pairs: _object(pairs, marked),
            parse_constant=lambda _: _refuse_non_finite(text, name),
        )
    except json.JSONDecodeError as error:
        place = min(error.pos, len(text.rstrip()))
        span = Source(name, text).span(place, place)
        diagnostic = Diagnostic(code="not-json", message=_not_json(error, text), span=span, path="")
        raise SerializationError(summary([diagnostic]), diagnostics=[diagnostic]) from error
    except RecursionError:
        fail(f"{name}: nested too deeply", "too-deep")
    except ValueError as error:
        fail(f"{name}: not JSON: {error}", "not-json")
    if not marked:
        return value
    repeated = [
        Diagnostic(code="duplicate-key", message=f"key {key!r} occurs twice", path=pointer)
        for pointer, keys in _repeated(value)
        for key in keys
    ]
    raise SerializationError(summary(repeated), diagnostics=repeated)


def _not_json(error: json.JSONDecodeError, text: str) -> str:
    """Return what is wrong with a text that is not JSON; Python's own message, unless the text just ends."""
    if not text.strip():
        return "not JSON: the document is empty"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return "not JSON: the document ends too early"
    return f"not JSON: {error.msg[0].lower()}{error.msg[1:]}"


def finding(
    path: tuple[str | int, ...], message: str, code: str = "wrong-value", severity: Severity = Severity.ERROR
) -> Diagnostic:
    """Return a finding at a place of a document."""
    return Diagnostic(code=code, message=message, severity=severity, path=pointer_to(path))


def problem_found(problem: Problem) -> Diagnostic:
    """Return what is wrong with a value as a finding."""
    return finding(problem.path, problem.text, problem.code)


def fail(message: str, code: str, path: str = "") -> NoReturn:
    """Raise a `SerializationError` with one finding."""
    raise SerializationError(message, diagnostics=[Diagnostic(code=code, message=message, path=path)])


def pointer_to(path: tuple[str | int, ...]) -> str:
    """Return the JSON pointer (RFC 6901) of a path of keys and positions."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)


def _object(pairs: list[tuple[str, Any]], marked: list[RepeatedKeys]) -> dict[str, Any]:
    """Return an object; one with repeated keys is put on a list too."""
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    repeated = RepeatedKeys(plain)
    counts = Counter(key for key, _ in pairs)
    repeated.repeated = tuple(key for key in plain if counts[key] > 1)
    marked.append(repeated)
    return repeated


def _refuse_non_finite(text: str, name: str) -> NoReturn:
    """Refuse the first of the tokens that Python's reader takes for numbers."""
    token = next(token for token in _STRING_OR_NON_FINITE.finditer(text) if not token[0].startswith('"'))
    diagnostic = Diagnostic(
        code="non-finite",
        message=f"{token[0]} is not JSON",
        span=Source(name, text).span(token.start(), token.end()),
        hint='write the string "inf", "-inf" or "nan"',
        path="",
    )
    raise SerializationError(summary([diagnostic]), diagnostics=[diagnostic])


def _repeated(value: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Return pointer and keys of every object with repeated keys, in order of the document."""
    repeated: list[tuple[str, tuple[str, ...]]] = []
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, RepeatedKeys):
            repeated.append((pointer_to(path), item.repeated))
        if isinstance(item, dict):
            inner: list[tuple[str | int, Any]] = [*cast("dict[str, Any]", item).items()]
        elif isinstance(item, list):
            inner = [*enumerate(cast("list[Any]", item))]
        else:
            continue
        waiting += [((*path, key), part) for key, part in reversed(inner)]
    return repeated
